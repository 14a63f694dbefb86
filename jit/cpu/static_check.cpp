// SPDX-License-Identifier: Apache-2.0
// Decoding of a blob's text and the rules it must keep.
#include "jit/cpu/static_check.hpp"

#include <llvm/ADT/StringExtras.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "jit/cpu/control_flow.hpp"

namespace whet::jit::cpu {
namespace {

using llvm::StringRef;

/// Opcode names refused with their own reason, before the allow-list says its general one.
constexpr struct {
    const char* prefix;
    const char* reason;
} kRefused[] = {
    {"SYSCALL", "system call"},
    {"INT", "trap"},
    {"UD", "trap"},
    {"TRAP", "trap"},
    {"VUCOMIS", "flags from a floating-point comparison"},
    {"VCOMIS", "flags from a floating-point comparison"},
    {"UCOMIS", "flags from a floating-point comparison"},
    {"COMIS", "flags from a floating-point comparison"},
    {"VPTEST", "flags or masks from vector data"},
    {"PTEST", "flags from vector data"},
    {"VTESTP", "flags from vector data"},
    {"KORTEST", "flags from a mask"},
    {"KTEST", "flags from a mask"},
    {"VMOVMSKP", "vector data in a general register"},
    {"MOVMSKP", "vector data in a general register"},
    {"VPMOVMSKB", "vector data in a general register"},
    {"VPEXTR", "vector data in a general register"},
    {"VMOVPDI2DI", "vector data in a general register"},
    {"VMOVPQI", "vector data in a general register"},
    {"VMOVSS2DI", "vector data in a general register"},
    {"VMOVSDto64", "vector data in a general register"},
    {"VCVTTSS2SI", "vector data in a general register"},
    {"VCVTSS2SI", "vector data in a general register"},
    {"VCVTTSD2SI", "vector data in a general register"},
    {"VCVTSD2SI", "vector data in a general register"},
    {"VGATHER", "gather"},
    {"VPGATHER", "gather"},
    {"VSCATTER", "scatter"},
    {"VPSCATTER", "scatter"},
};

/// Opcode names a microkernel may use: exact, or with a closing '*' every name that begins so.
constexpr const char* kAllowed[] = {
    // general registers: addresses, counters, masks
    "MOV64r*",
    "MOV64mr",
    "MOV32r*",
    "MOV8r*",
    "MOV8mr",
    "MOVZX32r*",
    "LEA64r",
    "LEA64_32r",
    "ADD64*",
    "SUB64*",
    "SUB32r*",
    "IMUL64r*",
    "SHL64ri",
    "SHL32ri",
    "SHR64ri",
    "SHR32ri",
    "SAR64ri",
    "SAR64r1",
    "SHR64r1",
    "SHL64r1",
    "AND64*",
    "AND32*",
    "AND8*",
    "OR64r*",
    "OR32r*",
    "OR8r*",
    "XOR32rr",
    "XOR64rr",
    "XOR8*",
    "INC64r",
    "DEC64r",
    "NEG64r",
    "NEG32r",
    "NEG8r",
    "NOT32r",
    "NOT64r",
    "CMP64*",
    "CMP32*",
    "CMP8*",
    "TEST64*",
    "TEST32*",
    "TEST8*",
    "SETCCr",
    "CMOV64rr",
    "CMOV64rm",
    "CMOV32rr",
    "CMOV32rm",
    "BZHI*",
    "SHRX64r*",
    "SHLX64r*",
    "SHRX32r*",
    "PUSH64r",
    "POP64r",
    "JCC_*",
    "JMP_*",
    "RET64",
    "NOOP*",
    "PREFETCHT0",
    "PREFETCHT1",
    // masks
    "KMOVBkr",
    "KMOVBkk",
    "KMOVDkr",
    "KMOVWkr",
    "KMOVQkr",
    "KMOVDkk",
    "KMOVWkk",
    "KSHIFTR*",
    "VMASKMOVPSYrm",
    "VMASKMOVPSYmr",
    "VMASKMOVPDYrm",
    "VMASKMOVPDYmr",
    // f32 vectors
    "VMOVUPS*",
    "VMOVAPS*",
    "VMOVSSrm",
    "VMOVSSZrm",
    "VMOVDI2PDI*",
    "VBROADCASTSS*",
    "VFMADD132PS*",
    "VFMADD213PS*",
    "VFMADD231PS*",
    "VADDPS*",
    "VSUBPS*",
    "VMULPS*",
    "VDIVPS*",
    "VMAXPS*",
    "VMINPS*",
    "VXORPS*",
    "VPXOR*",
    "VPAND*",
    "VANDN*",
    "VANDP*",
    "ANDN64rr",
    "ANDN64rm",
    "VPSLLD*",
    "VBLENDVPS*",
    "VBLENDMPS*",
    "VSHUFP*",
    "VPERMILP*",
    "VEXTRACTF*",
    "VPERM2F128*",
    "VPERMPD*",
    "VSHUFF64X2*",
    "VSHUFF32X4*",
    "VMOVSHDUP*",
    "VUNPCKHP*",
    "VUNPCKLP*",
    "VINSERTF*",
    "VADDSS*",
    "VMAXSS*",
    "VZEROUPPER",
    "VMOVHLPS*",
    "VPSHUFD*",
    "VMOVDDUP*",
    // f64 vectors
    "VMOVUPD*",
    "VMOVAPD*",
    "VMOVSDrm",
    "VMOVSDZrm",
    "VBROADCASTSD*",
    "VFMADD132PD*",
    "VFMADD213PD*",
    "VFMADD231PD*",
    "VMULPD*",
    "VMAXPD*",
    "VXORPD*",
};

bool matches(StringRef name, StringRef pattern) {
    if (pattern.consume_back("*")) return name.starts_with(pattern);
    return name == pattern;
}

bool is_allowed(StringRef name) {
    return std::any_of(std::begin(kAllowed), std::end(kAllowed),
                       [&](const char* pattern) { return matches(name, pattern); });
}

/// LLVM marks the names of EVEX instructions by a Z; mask instructions begin with K.
bool needs_avx512(StringRef name) {
    return name.starts_with("K") || (name.contains('Z') && name != "VZEROUPPER");
}
bool is_fma(StringRef name) { return name.starts_with("VFMADD"); }
bool is_prefetch(StringRef name) { return name.starts_with("PREFETCH"); }
bool is_vector(StringRef name) { return name.starts_with("V"); }
bool is_stack(const Instruction& i) { return i.memory && i.memory->base == "RSP"; }

/// Bytes that a vector instruction moves, by its name.
int64_t vector_bytes(StringRef name) {
    return name.contains('Z') ? 64 : name.contains('Y') ? 32 : 16;
}

}  // namespace

struct StaticChecker::Tools {
    llvm::Triple triple{"x86_64-unknown-linux-gnu"};
    const llvm::Target* target = nullptr;
    std::unique_ptr<llvm::MCRegisterInfo> registers;
    std::unique_ptr<llvm::MCAsmInfo> assembler;
    std::unique_ptr<llvm::MCSubtargetInfo> subtarget;
    std::unique_ptr<llvm::MCInstrInfo> instructions;
    std::unique_ptr<llvm::MCInstrAnalysis> analysis;
    std::unique_ptr<llvm::MCContext> context;
    std::unique_ptr<llvm::MCDisassembler> disassembler;
    std::unique_ptr<llvm::MCInstPrinter> printer;

    bool ready() const { return disassembler && printer; }
    void open();
    std::optional<Instruction> decode(const Blob& blob, uint64_t offset);
    std::optional<Memory> memory_of(const llvm::MCInst& inst);
    std::string text_of(const Instruction& instruction);
    StringRef name_of(llvm::MCRegister reg) {
        return reg ? StringRef(registers->getName(reg)) : StringRef();
    }
    bool writes_register(const Instruction& instruction, StringRef name);
    bool copies_stack_pointer(const Instruction& instruction);
};

void StaticChecker::Tools::open() {
    std::string message;
    target = llvm::TargetRegistry::lookupTarget(triple, message);
    if (target == nullptr) return;
    registers.reset(target->createMCRegInfo(triple));
    assembler.reset(target->createMCAsmInfo(*registers, triple, llvm::MCTargetOptions()));
    subtarget.reset(target->createMCSubtargetInfo(triple, "x86-64-v4", ""));
    instructions.reset(target->createMCInstrInfo());
    analysis.reset(target->createMCInstrAnalysis(instructions.get()));
    context = std::make_unique<llvm::MCContext>(triple, assembler.get(), registers.get(),
                                                subtarget.get());
    disassembler.reset(target->createMCDisassembler(*subtarget, *context));
    constexpr unsigned kIntelSyntax = 1;
    printer.reset(
        target->createMCInstPrinter(triple, kIntelSyntax, *assembler, *instructions, *registers));
    if (printer) printer->setPrintImmHex(true);
}

std::optional<Memory> StaticChecker::Tools::memory_of(const llvm::MCInst& inst) {
    const llvm::MCInstrDesc& description = instructions->get(inst.getOpcode());
    constexpr unsigned kParts = 5;  // base, scale, index, displacement, segment
    for (unsigned i = 0; i + kParts <= inst.getNumOperands() && i < description.getNumOperands();
         ++i) {
        if (description.operands()[i].OperandType != llvm::MCOI::OPERAND_MEMORY) continue;
        Memory memory;
        memory.base = name_of(inst.getOperand(i).getReg());
        memory.index = name_of(inst.getOperand(i + 2).getReg());
        if (inst.getOperand(i + 3).isImm()) memory.displacement = inst.getOperand(i + 3).getImm();
        memory.other_segment = bool(inst.getOperand(i + 4).getReg());
        return memory;
    }
    return std::nullopt;
}

std::optional<Instruction> StaticChecker::Tools::decode(const Blob& blob, uint64_t offset) {
    Instruction decoded;
    decoded.offset = offset;
    const llvm::ArrayRef<uint8_t> bytes(blob.bytes.data() + offset, blob.text_bytes - offset);
    if (disassembler->getInstruction(decoded.inst, decoded.size, bytes, offset, llvm::nulls()) !=
            llvm::MCDisassembler::Success ||
        decoded.size == 0) {
        return std::nullopt;
    }
    const llvm::MCInstrDesc& description = instructions->get(decoded.inst.getOpcode());
    decoded.name = instructions->getName(decoded.inst.getOpcode());
    decoded.memory = memory_of(decoded.inst);
    decoded.is_branch = description.isBranch();
    const bool adds = decoded.name.starts_with("ADD64ri") || decoded.name.starts_with("SUB64ri");
    decoded.adjusts_stack = adds && name_of(decoded.inst.getOperand(0).getReg()) == "RSP";
    if (decoded.memory && !is_prefetch(decoded.name)) {
        decoded.reads = description.mayLoad();
        decoded.writes = description.mayStore();
    }
    uint64_t landing = 0;
    if (decoded.is_branch && !description.isIndirectBranch() &&
        analysis->evaluateBranch(decoded.inst, offset, decoded.size, landing)) {
        decoded.target = landing;
    }
    return decoded;
}

std::string StaticChecker::Tools::text_of(const Instruction& instruction) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    printer->printInst(&instruction.inst, instruction.offset, "", *subtarget, stream);
    std::replace(text.begin(), text.end(), '\t', ' ');
    return StringRef(text).trim().str();
}

bool StaticChecker::Tools::writes_register(const Instruction& instruction, StringRef name) {
    const llvm::MCInstrDesc& description = instructions->get(instruction.inst.getOpcode());
    for (unsigned i = 0; i < description.getNumDefs() && i < instruction.inst.getNumOperands();
         ++i) {
        if (!instruction.inst.getOperand(i).isReg()) continue;
        const llvm::MCRegister reg = instruction.inst.getOperand(i).getReg();
        for (llvm::MCSuperRegIterator super(reg, registers.get(), true); super.isValid(); ++super) {
            if (name_of(*super) == name) return true;
        }
    }
    return false;
}

/// The stack pointer as an operand, but for its own addition and subtraction: then another register
/// could be a frame.
bool StaticChecker::Tools::copies_stack_pointer(const Instruction& instruction) {
    if (instruction.adjusts_stack) return false;
    return std::any_of(instruction.inst.begin(), instruction.inst.end(),
                       [&](const llvm::MCOperand& operand) {
                           return operand.isReg() && name_of(operand.getReg()) == "RSP";
                       });
}

namespace {

/// The rules that look at one instruction alone.
std::string check_one(const Instruction& i, const Blob& blob,
                      const llvm::MCInstrDesc& description) {
    constexpr unsigned kRepeatOrLock =
        4 | 8 | 16;  // X86::IP_HAS_REPEAT_NE, IP_HAS_REPEAT, IP_HAS_LOCK
    for (const auto& refused : kRefused) {
        if (i.name.starts_with(refused.prefix)) return refused.reason;
    }
    if (i.name.starts_with("KMOV") && i.name.contains("rk")) return "a mask in a general register";
    if (blob.spec.isa != Isa::avx512 && needs_avx512(i.name)) return "instruction of AVX-512";
    if (description.isCall()) return "call";
    if (description.isIndirectBranch()) return "indirect branch";
    if (!is_allowed(i.name)) return "opcode " + i.name.str() + " is not allowed";
    if (i.inst.getFlags() & kRepeatOrLock) return "lock or repeat prefix";
    if (!i.memory) return "";
    if (i.name.starts_with("NOOP")) return "";
    if (i.memory->other_segment) return "segment prefix";
    for (const StringRef reg : {i.memory->base, i.memory->index}) {
        if (!reg.empty() && !reg.starts_with("R"))
            return "address in " + reg.str() + ", not in 64 bits";
    }
    if (i.memory->base == "RIP") {
        if (i.writes) return "write relative to the instruction pointer";
        const int64_t at = static_cast<int64_t>(i.offset + i.size) + i.memory->displacement;
        if (at < blob.text_bytes || at >= static_cast<int64_t>(blob.bytes.size())) {
            return "read relative to the instruction pointer outside the read-only data";
        }
    }
    if (i.name.starts_with("LEA") && i.memory->base == "RSP") return "the stack pointer is copied";
    if (i.memory->base.empty() && i.memory->index.empty()) return "absolute address";
    if (i.writes && i.memory->base == "RDI") return "write to the arguments";
    return "";
}

bool loads_general_register(const Instruction& i) {
    return i.reads && !is_vector(i.name) && !i.name.starts_with("KMOV");
}

/// The rules on where general registers come from and go to, and on the stack.
class DataFlow {
public:
    DataFlow(const Blob& blob, std::vector<int64_t> depths)
        : taps_left_(blob.spec.taps ? kTapLoads : 0), depths_(std::move(depths)) {}

    void note(const Instruction& i, std::size_t index) {
        if (!is_stack(i) || !i.writes || !is_vector(i.name)) return;
        const int64_t slot = slot_of(i, index);
        vector_slots_.emplace_back(slot, slot + vector_bytes(i.name));
    }
    std::string check(const Instruction& i, std::size_t index) {
        if (depths_[index] == ControlFlow::kUnreached) return "code that nothing reaches";
        if (depths_[index] == ControlFlow::kAmbiguous || depths_[index] > kMostStack) {
            return "stack depth that depends on the path, or too large";
        }
        if (i.name.starts_with("RET") && depths_[index] != 0) return "return with an uneven stack";
        if (i.name == "POP64r") {
            if (depths_[index] < kRegisterBytes) return "pop of what was not pushed";
            return holds_vector(-depths_[index]) ? kFromVector : "";
        }
        if (is_stack(i)) return check_stack(i, index);
        if (i.writes && !is_vector(i.name)) return "general register stored outside the stack";
        if (!loads_general_register(i)) return "";
        if (i.memory->base == "RIP") return "general register loaded from constants";
        if (i.memory->base == "RDI" && i.memory->index.empty()) return "";
        return taps_left_-- > 0 ? "" : "general register loaded from tensor data";
    }

private:
    static constexpr int kTapLoads = 2;  // scalar offset and vector offset of a tap
    static constexpr int64_t kRegisterBytes = 8;
    static constexpr int64_t kRedZone = 128;     // below the stack pointer, System V ABI
    static constexpr int64_t kMostStack = 4096;  // a page: no guard page is jumped over
    static constexpr const char* kFromVector = "general register loaded from a vector's stack slot";

    /// The address relative to the stack pointer at the entry: 0 is the return address.
    int64_t slot_of(const Instruction& i, std::size_t index) const {
        return i.memory->displacement - depths_[index];
    }
    bool holds_vector(int64_t slot) const {
        return std::any_of(vector_slots_.begin(), vector_slots_.end(), [&](const auto& vector) {
            return slot < vector.second && vector.first < slot + kRegisterBytes;
        });
    }
    std::string check_stack(const Instruction& i, std::size_t index) const {
        if (!i.memory->index.empty()) return "computed stack address";
        const int64_t slot = slot_of(i, index);
        const int64_t bytes = is_vector(i.name) ? vector_bytes(i.name) : kRegisterBytes;
        if (slot + bytes > 0 || slot < -depths_[index] - kRedZone)
            return "stack access outside the frame";
        return loads_general_register(i) && holds_vector(slot) ? kFromVector : "";
    }

    int taps_left_;
    std::vector<int64_t> depths_;                            ///< by instruction
    std::vector<std::pair<int64_t, int64_t>> vector_slots_;  ///< begin, end
};

}  // namespace

/// One check of one blob.
class StaticChecker::Examination {
public:
    Examination(Tools& tools, const Blob& blob) : tools_(tools), blob_(blob) {}
    StaticReport run(bool want_disassembly) {
        if (decode(want_disassembly)) {
            check_instructions();
            if (report_.reason.empty()) check_flow();
        }
        report_.accepted = report_.reason.empty();
        return std::move(report_);
    }

private:
    bool decode(bool want_disassembly);
    void check_instructions();
    std::string check_registers(const Instruction& instruction);
    void check_flow();
    void check_data_flow(const ControlFlow& control);
    void check_loop(const Loop& loop);
    /// Keeps the first refusal.
    void refuse(const Instruction& at, const std::string& reason);
    const llvm::MCInstrDesc& description(const Instruction& i) {
        return tools_.instructions->get(i.inst.getOpcode());
    }
    bool is_tile() const { return blob_.spec.kind == MicrokernelKind::tile; }
    int fmas_of_step() const { return blob_.spec.rows * blob_.spec.vectors; }

    Tools& tools_;
    const Blob& blob_;
    StaticReport report_;
    Text text_;
    std::map<uint64_t, std::size_t> index_at_;  ///< offset -> index in text_
};

void StaticChecker::Examination::refuse(const Instruction& at, const std::string& reason) {
    if (!report_.reason.empty()) return;
    report_.reason =
        "0x" + llvm::utohexstr(at.offset, true) + ": " + tools_.text_of(at) + ": " + reason;
}

bool StaticChecker::Examination::decode(bool want_disassembly) {
    for (uint64_t offset = 0; offset < blob_.text_bytes;) {
        auto decoded = tools_.decode(blob_, offset);
        if (!decoded) {
            report_.reason = "0x" + llvm::utohexstr(offset, true) + ": undecodable bytes";
            return false;
        }
        index_at_[offset] = text_.size();
        if (want_disassembly) {
            report_.disassembly +=
                llvm::utohexstr(offset, true) + ": " + tools_.text_of(*decoded) + "\n";
        }
        offset += decoded->size;
        text_.push_back(std::move(*decoded));
    }
    return true;
}

/// The two registers with a role: the arguments' and the stack's.
std::string StaticChecker::Examination::check_registers(const Instruction& i) {
    if (tools_.writes_register(i, "RDI")) return "the arguments' register is changed";
    if (!i.memory && tools_.copies_stack_pointer(i)) return "the stack pointer is copied";
    if (!i.adjusts_stack && tools_.writes_register(i, "RSP"))
        return "the stack pointer is computed";
    return "";
}

void StaticChecker::Examination::check_instructions() {
    for (const Instruction& i : text_) {
        std::string reason = check_one(i, blob_, description(i));
        if (reason.empty() && i.is_branch && (!i.target || !index_at_.contains(*i.target))) {
            reason = "branch that does not land on an instruction of the text";
        }
        if (reason.empty()) reason = check_registers(i);
        if (!reason.empty()) return refuse(i, reason);
    }
    if (!text_.back().name.starts_with("RET") && !text_.back().name.starts_with("JMP")) {
        refuse(text_.back(), "the text can be left at its end");
    }
    if (!index_at_.contains(blob_.entry)) refuse(text_.front(), "the entry is not an instruction");
}

void StaticChecker::Examination::check_data_flow(const ControlFlow& control) {
    DataFlow data(blob_, control.stack_depths(text_));
    for (std::size_t i = 0; i < text_.size(); ++i) data.note(text_[i], i);
    for (std::size_t i = 0; i < text_.size(); ++i) {
        if (text_[i].name.starts_with("NOOP")) continue;
        const std::string reason = data.check(text_[i], i);
        if (!reason.empty()) return refuse(text_[i], reason);
    }
}

void StaticChecker::Examination::check_loop(const Loop& loop) {
    int fmas = 0, loads = 0;
    for (const std::size_t n : loop) {
        if (is_stack(text_[n])) refuse(text_[n], "stack access in an innermost loop");
        if (is_tile() && text_[n].writes && !blob_.spec.packs)
            refuse(text_[n], "store in an innermost loop");
        fmas += is_fma(text_[n].name);
        loads += text_[n].reads;
    }
    if (is_tile() && fmas < fmas_of_step()) {
        refuse(text_[loop.front()], "innermost loop of " + std::to_string(fmas) +
                                        " FMAs, the tile needs " + std::to_string(fmas_of_step()));
    }
    if (fmas >= report_.fma_count) {
        report_.fma_count = fmas;
        report_.load_count = loads;
    }
}

void StaticChecker::Examination::check_flow() {
    const ControlFlow flow(text_, index_at_, index_at_.at(blob_.entry));
    check_data_flow(flow);
    for (const Loop& loop : flow.innermost_loops()) check_loop(loop);
    const int wanted = fmas_of_step() * blob_.spec.unroll;
    if (is_tile() && report_.fma_count < wanted) {
        refuse(text_.back(), "longest loop of " + std::to_string(report_.fma_count) +
                                 " FMAs, the spec says " + std::to_string(wanted));
    }
}

base::Result<StaticReport> StaticChecker::check(const Blob& blob, bool want_disassembly) {
    if (!tools_->ready())
        return base::make_error(base::Code::unsupported, "no x86 disassembler in this LLVM");
    if (blob.text_bytes == 0 || blob.text_bytes > blob.bytes.size()) {
        return base::make_error(base::Code::invalid_argument, "text of %u bytes in a block of %zu",
                                blob.text_bytes, blob.bytes.size());
    }
    if (blob.spec.isa == Isa::portable) {
        return base::make_error(base::Code::unsupported, "portable microkernels have no code");
    }
    return Examination(*tools_, blob).run(want_disassembly);
}

StaticChecker::StaticChecker() : tools_(std::make_unique<Tools>()) { tools_->open(); }
StaticChecker::~StaticChecker() = default;

}  // namespace whet::jit::cpu
