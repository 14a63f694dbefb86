// SPDX-License-Identifier: Apache-2.0
// The code generator as the rest of Whet sees it: specs in, verified-shape blobs out; LLVM stays
// behind a dlopen.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace whet::jit::cpu {

/// Sixteen digits over the sources of the code generator and of the microkernels' form: blobs and
/// libraries of another build are told by it.
std::string_view generator_identity() noexcept;

/// What the static check of one blob found (design: no branch on data, no stack in the inner loop,
/// allowed opcodes).
struct StaticReport {
    bool accepted = false;
    std::string reason;       ///< first offence: offset, instruction text, rule
    int fma_count = 0;        ///< fused multiply-adds in the innermost loop
    int load_count = 0;       ///< loads in the innermost loop
    std::string disassembly;  ///< one instruction a line; filled only on request
};

/// Compiles microkernels through LLVM ORC in `libwhet_llvm.so`, opened (RTLD_LOCAL) at the first
/// use. Not thread-safe: one per thread. compile: about 10 ms, errors compile_failed, unsupported.
class Compiler {
public:
    virtual ~Compiler() = default;
    virtual base::Result<Blob> compile(const MicrokernelSpec& spec) = 0;
    /// Disassembles and checks text; `blob.spec` says what it claims to be.
    virtual base::Result<StaticReport> check(const Blob& blob, bool want_disassembly) = 0;
};

/// What happens when LLVM meets a fatal error of its own (a bug in it, no memory).
enum class Fatal {
    exit,  ///< LLVM's way: the process ends with a message; right for a helper process that is
           ///< watched
    park,  ///< the compiling thread sleeps for ever: right inside a host
};

/// Opens the library beside `directory` (the folder of the calling library). io_error when it is
/// missing or of another build. `fatal` holds for the process: `park`, once asked for, stays.
base::Result<std::unique_ptr<Compiler>> open_compiler(const std::string& directory,
                                                      Fatal fatal = Fatal::exit);

}  // namespace whet::jit::cpu
