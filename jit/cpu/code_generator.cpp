// SPDX-License-Identifier: Apache-2.0
// The compile pipeline: target machines, LLVM's switches, module to object.
#include "jit/cpu/code_generator.hpp"

#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

#include "jit/cpu/emit.hpp"

namespace whet::jit::cpu {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

/// Switches of LLVM that would undo the order and the addresses the emitters chose. They are
/// process-wide inside this library's private LLVM, and set without its command-line parser, which
/// must never run inside a host.
constexpr struct {
    const char* name;
    const char* value;
} kSwitches[] = {
    {"disable-lsr", "true"},      // strength reduction invents one pointer a row
    {"disable-cgp", "true"},      // addresses already stand where they are used
    {"enable-misched", "false"},  // keeps load, splat, FMA row by row: fewest live registers
    {"pre-RA-sched", "source"},   // as above, inside instruction selection
};

void set_switch(const char* name, const char* value) {
    auto& options = llvm::cl::getRegisteredOptions();
    const auto found = options.find(name);
    if (found != options.end()) found->second->addOccurrence(0, name, value);
}

void initialize_once() {
    static std::once_flag once;
    std::call_once(once, [] {
        LLVMInitializeX86TargetInfo();
        LLVMInitializeX86Target();
        LLVMInitializeX86TargetMC();
        LLVMInitializeX86AsmPrinter();
        LLVMInitializeX86Disassembler();
        for (const auto& entry : kSwitches) set_switch(entry.name, entry.value);
    });
}

/// One architecture level, never the host's model: equal specs make equal blobs on every machine.
const char* processor_of(Isa isa) { return isa == Isa::avx512 ? "x86-64-v4" : "x86-64-v3"; }

}  // namespace

CodeGenerator::CodeGenerator() { initialize_once(); }
CodeGenerator::~CodeGenerator() = default;

base::Result<llvm::TargetMachine*> CodeGenerator::machine_for(Isa isa) {
    if (isa != Isa::avx2 && isa != Isa::avx512) {
        return base::make_error(base::Code::unsupported,
                                "no code is generated for instruction set %s", isa_name(isa));
    }
    auto& machine = machines_[static_cast<std::size_t>(isa)];
    if (machine) return machine.get();
    const llvm::Triple triple(kTriple);
    std::string message;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, message);
    if (target == nullptr)
        return base::make_error(base::Code::compile_failed, "no x86 target: %s", message.c_str());
    machine.reset(target->createTargetMachine(triple, processor_of(isa), "", llvm::TargetOptions(),
                                              llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                              llvm::CodeGenOptLevel::Default, true));
    if (!machine)
        return base::make_error(base::Code::compile_failed, "no target machine for %s",
                                isa_name(isa));
    return machine.get();
}

namespace {

std::unique_ptr<llvm::Module> make_module(llvm::LLVMContext& context,
                                          const llvm::TargetMachine& machine,
                                          const MicrokernelSpec& spec) {
    auto module = std::make_unique<llvm::Module>("whet", context);
    module->setTargetTriple(machine.getTargetTriple());
    module->setDataLayout(machine.createDataLayout());
    if (spec.kind == MicrokernelKind::softmax) {
        emit_softmax(*module, spec);
    } else {
        emit_tile(*module, spec);
    }
    return module;
}

}  // namespace

base::Result<std::string> CodeGenerator::print_ir(const MicrokernelSpec& spec) {
    WHET_TRY_VOID(spec.check());
    WHET_TRY(llvm::TargetMachine * machine, machine_for(spec.isa));
    llvm::LLVMContext context;
    std::string text;
    llvm::raw_string_ostream stream(text);
    make_module(context, *machine, spec)->print(stream, nullptr);
    return text;
}

base::Result<Blob> CodeGenerator::compile(const MicrokernelSpec& spec) {
    WHET_TRY_VOID(spec.check());
    WHET_TRY(llvm::TargetMachine * machine, machine_for(spec.isa));
    llvm::LLVMContext context;
    const auto module = make_module(context, *machine, spec);
    std::string message;
    llvm::raw_string_ostream stream(message);
    if (llvm::verifyModule(*module, &stream)) {
        return base::make_error(base::Code::compile_failed, "invalid IR for %s: %s",
                                spec.print().c_str(), message.c_str());
    }
    static std::mutex switches;  // they are process-wide: one compile at a time
    const std::lock_guard<std::mutex> lock(switches);
    // With 16 registers constants belong in memory operands: hoisted or shared they would push out
    // the sums.
    const char* few_registers = spec.isa == Isa::avx2 ? "true" : "false";
    set_switch("disable-machine-licm", few_registers);
    set_switch("disable-machine-cse", few_registers);
    llvm::orc::SimpleCompiler compiler(*machine);
    auto object = compiler(*module);
    if (!object) {
        return base::make_error(base::Code::compile_failed, "no object for %s: %s",
                                spec.print().c_str(), llvm::toString(object.takeError()).c_str());
    }
    return link_blob(spec, (*object)->getMemBufferRef());
}

}  // namespace whet::jit::cpu
