// SPDX-License-Identifier: Apache-2.0
// Decoded instructions of a blob, and the loops of their control flow; private to libwhet_llvm.so.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/MC/MCInst.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace whet::jit::cpu {

/// A memory operand as LLVM's x86 tables order it.
struct Memory {
    llvm::StringRef base, index;  ///< register names, "" when absent
    int64_t displacement = 0;
    bool other_segment = false;
};

struct Instruction {
    uint64_t offset = 0;
    uint64_t size = 0;
    llvm::MCInst inst;
    llvm::StringRef name;  ///< LLVM's opcode name, e.g. VFMADD231PSZr
    std::optional<Memory> memory;
    std::optional<uint64_t> target;  ///< of a direct branch
    bool reads = false;              ///< memory
    bool writes = false;
    bool is_branch = false;
    bool adjusts_stack = false;  ///< adds a constant to the stack pointer or subtracts it
};

using Text = std::vector<Instruction>;

/// The instructions of a natural loop, by index in the text.
using Loop = std::vector<std::size_t>;

/// The control flow of a text whose branches all land inside it.
class ControlFlow {
public:
    ControlFlow(const Text& text, const std::map<uint64_t, std::size_t>& index_at,
                std::size_t entry);
    /// Natural loops that hold no header of another one.
    std::vector<Loop> innermost_loops() const;
    /// Bytes that the stack pointer is below its value at the entry, before each instruction;
    /// kUnreached where no path leads, kAmbiguous where it depends on the path.
    std::vector<int64_t> stack_depths(const Text& text) const;
    static constexpr int64_t kUnreached = -1, kAmbiguous = -2;

private:
    using Blocks = std::vector<bool>;
    void find_dominators();
    Blocks body_of(std::size_t from, std::size_t header) const;

    std::vector<std::size_t>
        starts_;  ///< first instruction of each block; one past the end closes the list
    std::vector<std::vector<std::size_t>> successors_, predecessors_;
    std::vector<Blocks> dominators_;
    std::size_t entry_ = 0;
};

}  // namespace whet::jit::cpu
