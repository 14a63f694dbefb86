// SPDX-License-Identifier: Apache-2.0
// Spec -> LLVM IR -> object -> blob; private to libwhet_llvm.so.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace llvm {
class MemoryBufferRef;
class TargetMachine;
namespace cl {
class Option;
}
}  // namespace llvm

namespace whet::jit::cpu {

/// Compiles specs through ORC's SimpleCompiler with one kept TargetMachine an instruction-set level
/// (building one costs more than a small kernel). A fresh LLVMContext a compile: types would pile
/// up in a kept one. Not thread-safe.
///
/// ORC stops at the object. Its JIT linker would map memory, run finalisers and keep one graph a
/// kernel, while a blob is bytes to be stored and copied: link_blob lays the object out and
/// resolves the references inside it.
class CodeGenerator {
public:
    CodeGenerator();
    ~CodeGenerator();
    CodeGenerator(const CodeGenerator&) = delete;
    CodeGenerator& operator=(const CodeGenerator&) = delete;

    base::Result<Blob> compile(const MicrokernelSpec& spec);
    /// The textual IR of the spec, for people.
    base::Result<std::string> print_ir(const MicrokernelSpec& spec);

private:
    base::Result<llvm::TargetMachine*> machine_for(Isa isa);

    std::unique_ptr<llvm::TargetMachine> machines_[3];
};

/// Lays out text, then read-only data, and resolves PC-relative references between them.
/// compile_failed when the object names an outside symbol, a GOT entry, an absolute address or
/// writable data, or does not hold exactly the entry.
base::Result<Blob> link_blob(const MicrokernelSpec& spec, llvm::MemoryBufferRef object);

}  // namespace whet::jit::cpu
