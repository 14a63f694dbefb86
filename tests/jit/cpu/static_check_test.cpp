// SPDX-License-Identifier: Apache-2.0
// The static check refuses hand-made offenders, each for its own reason, and accepts what the
// generator makes.
#include <gtest/gtest.h>

#include "harness.hpp"

namespace whet::jit::cpu {
namespace {

struct Offender {
    const char* name;
    const char* reason;  ///< part of the report's reason
    std::vector<uint8_t> text;
    std::vector<uint8_t> data = {};        ///< read-only data behind the text
    const char* spec = "softmax.avx2.r1";  ///< no FMA count to keep
};

const Offender kOffenders[] = {
    {"Call", "call", {0xe8, 0, 0, 0, 0, 0xc3}},
    {"IndirectCall", "call", {0xff, 0xd0, 0xc3}},
    {"IndirectJump", "indirect branch", {0xff, 0xe0, 0xc3}},
    {"JumpThroughMemory", "indirect branch", {0xff, 0x27, 0xc3}},
    {"SystemCall", "system call", {0x0f, 0x05, 0xc3}},
    {"Breakpoint", "trap", {0xcc, 0xc3}},
    {"Interrupt", "trap", {0xcd, 0x80, 0xc3}},
    {"Undefined", "trap", {0x0f, 0x0b, 0xc3}},
    {"Undecodable", "undecodable", {0x06, 0xc3}},
    {"CutInstruction", "undecodable", {0x48, 0x8b}},
    {"NoReturn", "left at its end", {0x31, 0xc0}},
    {"EndsInABranch", "left at its end", {0x31, 0xc0, 0x75, 0xfc}},
    {"ReturnAndPop", "not allowed", {0xc2, 0x08, 0x00}},
    {"JumpOutside", "does not land", {0xeb, 0x10, 0xc3}},
    {"JumpBefore", "does not land", {0xeb, 0xf0, 0xc3}},
    {"JumpIntoInstruction", "does not land", {0xeb, 0x01, 0x48, 0x31, 0xc0, 0xc3}},
    {"CompareToFlags", "floating-point comparison", {0xc5, 0xf8, 0x2e, 0xc1, 0xc3}},  // vucomiss
    {"OrderedCompareToFlags",
     "floating-point comparison",
     {0xc5, 0xf8, 0x2f, 0xc1, 0xc3}},                                     // vcomiss
    {"VectorTest", "vector data", {0xc4, 0xe2, 0x7d, 0x17, 0xc1, 0xc3}},  // vptest
    {"MoveMask", "general register", {0xc5, 0xfc, 0x50, 0xc0, 0xc3}},     // vmovmskps
    {"MoveLane", "general register", {0xc5, 0xf9, 0x7e, 0xc0, 0xc3}},     // vmovd eax, xmm0
    {"ExtractLane", "general register", {0xc4, 0xe3, 0x79, 0x16, 0xc0, 0x01, 0xc3}},  // vpextrd
    {"MaskToRegister",
     "mask in a general register",
     {0xc5, 0xf8, 0x93, 0xc1, 0xc3}},                                   // kmovw eax, k1
    {"MaskTest", "flags from a mask", {0xc5, 0xf8, 0x98, 0xc1, 0xc3}},  // kortestw k0, k1
    {"Convert", "general register", {0xc5, 0xfa, 0x2c, 0xc0, 0xc3}},    // vcvttss2si
    {"Gather", "gather", {0xc4, 0xe2, 0x6d, 0x92, 0x04, 0x8f, 0xc3}},   // vgatherdps
    {"RepeatedStore", "not allowed", {0xf3, 0xab, 0xc3}},               // rep stosd
    {"LockedAdd", "not allowed|lock", {0xf0, 0x48, 0x01, 0x08, 0xc3}},  // lock add [rax], rcx
    {"TimeStamp", "not allowed", {0x0f, 0x31, 0xc3}},                   // rdtsc
    {"X87", "not allowed", {0xd9, 0xe8, 0xc3}},                         // fld1
    {"Avx512InAvx2",
     "AVX-512",
     {0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0, 0xc3}},                        // vaddps zmm0, zmm0, zmm0
    {"MaskInAvx2", "AVX-512", {0xc5, 0xf8, 0x92, 0xc8, 0xc3}},           // kmovw k1, eax
    {"Segment", "segment", {0x64, 0x48, 0x8b, 0x07, 0xc3}},              // mov rax, fs:[rdi]
    {"ShortAddress", "not in 64 bits", {0x67, 0x48, 0x8b, 0x07, 0xc3}},  // mov rax, [edi]
    {"AbsoluteAddress", "absolute address", {0x48, 0x8b, 0x04, 0x25, 0, 0x10, 0, 0, 0xc3}},
    {"WriteToArguments",
     "write to the arguments",
     {0xc5, 0xfc, 0x11, 0x07, 0xc3}},  // vmovups [rdi], ymm0
    {"WriteToCode",
     "write relative to the instruction pointer",
     {0xc5, 0xfc, 0x11, 0x05, 0, 0, 0, 0, 0xc3}},
    {"ReadOfCode",
     "outside the read-only data",
     {0xc5, 0xfc, 0x10, 0x05, 0xf0, 0xff, 0xff, 0xff, 0xc3}},
    {"ReadPastData",
     "outside the read-only data",
     {0xc5, 0xfc, 0x10, 0x05, 0x21, 0, 0, 0, 0xc3},
     std::vector<uint8_t>(32)},
    {"ArgumentsMoved", "arguments' register", {0x48, 0x89, 0xc7, 0xc3}},          // mov rdi, rax
    {"ArgumentsStepped", "arguments' register", {0x48, 0x83, 0xc7, 0x08, 0xc3}},  // add rdi, 8
    {"StackPivot", "stack pointer", {0x48, 0x89, 0xc4, 0xc3}},                    // mov rsp, rax
    {"StackPointerCopied", "stack pointer", {0x48, 0x89, 0xe0, 0xc3}},            // mov rax, rsp
    {"StackAddressTaken",
     "stack pointer",
     {0x48, 0x8d, 0x44, 0x24, 0x08, 0xc3}},  // lea rax, [rsp + 8]
    {"LoadOfTensorData", "loaded from tensor data", {0x48, 0x8b, 0x00, 0xc3}},     // mov rax, [rax]
    {"CompareOfTensorData", "loaded from tensor data", {0x48, 0x3b, 0x08, 0xc3}},  // cmp rcx, [rax]
    {"ThroughTheStack",
     "vector's stack slot",
     {0xc5, 0xfc, 0x11, 0x44, 0x24, 0xe0, 0x48, 0x8b, 0x44, 0x24, 0xf0,
      0xc3}},  // vmovups [rsp-32], ymm0; mov rax, [rsp-16]
    {"ThroughAPop",
     "vector's stack slot",
     {0xc5, 0xfc, 0x11, 0x44, 0x24, 0xe0, 0x48, 0x83, 0xec, 0x20, 0x58, 0x48, 0x83, 0xc4, 0x18,
      0xc3}},
    {"ReturnAddressWritten", "outside the frame", {0xc5, 0xf8, 0x11, 0x04, 0x24, 0xc3}},
    {"BelowTheRedZone",
     "outside the frame",
     {0xc5, 0xfc, 0x11, 0x84, 0x24, 0, 0xff, 0xff, 0xff, 0xc3}},
    {"ComputedStackAddress", "computed stack address", {0xc5, 0xfc, 0x11, 0x04, 0x04, 0xc3}},
    {"UnevenStack", "uneven stack", {0x50, 0xc3}},
    {"PopOfReturnAddress", "pop of what was not pushed", {0x58, 0xc3}},
    {"PushInALoop", "stack depth", {0x50, 0x48, 0xff, 0xc8, 0x75, 0xfa, 0xc3}},
    {"DeadCode", "nothing reaches", {0xc3, 0x31, 0xc0, 0xc3}},
    {"StoreOfRegister", "outside the stack", {0x48, 0x89, 0x08, 0xc3}},  // mov [rax], rcx
    {"StackInLoop",
     "stack access in an innermost loop",
     {0xc5, 0xfc, 0x10, 0x44, 0x24, 0xe0, 0x48, 0xff, 0xc8, 0x75, 0xf5,
      0xc3}},  // vmovups ymm0, [rsp-32]; dec; jne
    {"StoreInTileLoop",
     "store in an innermost loop",
     {0xc5, 0xfc, 0x11, 0x00, 0x48, 0xff, 0xc8, 0x75, 0xf7, 0xc3},
     {},
     "tile.avx2.r1.v1.u1.packed.packed.none"},
    {"TooFewFmas",
     "the tile needs",
     {0xc4, 0xe2, 0x7d, 0xb8, 0xc1, 0x48, 0xff, 0xc8, 0x75, 0xf6, 0xc3},
     {},
     "tile.avx2.r2.v1.u1.packed.packed.none"},
    {"NoLoop", "the spec says", {0xc3}, {}, "tile.avx2.r1.v1.u1.packed.packed.none"},
};

class StaticCheck : public testing::TestWithParam<Offender> {};

TEST_P(StaticCheck, Refuses) {
    Compiler* compiler = test_compiler();
    ASSERT_NE(compiler, nullptr);
    Blob blob = {*MicrokernelSpec::parse(GetParam().spec), GetParam().text, 0,
                 static_cast<uint32_t>(GetParam().text.size())};
    blob.bytes.insert(blob.bytes.end(), GetParam().data.begin(), GetParam().data.end());
    const auto report = compiler->check(blob, true);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_FALSE(report->accepted) << report->disassembly;
    const std::string wanted = GetParam().reason;
    const std::size_t bar = wanted.find('|');
    const bool found = report->reason.find(wanted.substr(0, bar)) != std::string::npos ||
                       (bar != std::string::npos &&
                        report->reason.find(wanted.substr(bar + 1)) != std::string::npos);
    EXPECT_TRUE(found) << "got \"" << report->reason << "\", expected " << wanted << "\n"
                       << report->disassembly;
}

INSTANTIATE_TEST_SUITE_P(Offenders, StaticCheck, testing::ValuesIn(kOffenders),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(StaticCheck, AcceptsABareReturnAndALoop) {
    Compiler* compiler = test_compiler();
    ASSERT_NE(compiler, nullptr);
    const Blob loop = {*MicrokernelSpec::parse("tile.avx2.r1.v1.u1.packed.packed.none"),
                       {0xc4, 0xe2, 0x7d, 0xb8, 0xc1, 0x48, 0xff, 0xc8, 0x75, 0xf6, 0xc3},
                       0,
                       11};
    const auto report = compiler->check(loop, false);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->accepted) << report->reason;
    EXPECT_EQ(report->fma_count, 1);
}

TEST(StaticCheck, CountsAndPrintsAGeneratedTile) {
    Compiler* compiler = test_compiler();
    ASSERT_NE(compiler, nullptr);
    const auto blob = compiler->compile(
        *MicrokernelSpec::parse("tile.avx512.r14.v2.u4.rows_strided.packed.none"));
    ASSERT_TRUE(blob);
    const auto report = compiler->check(*blob, true);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->accepted) << report->reason;
    EXPECT_EQ(report->fma_count, 14 * 2 * 4);
    EXPECT_EQ(report->load_count, (14 + 2) * 4);
    EXPECT_NE(report->disassembly.find("vfmadd231ps"), std::string::npos);
}

/// Any single flipped bit of a generated text is refused, or leaves a text that the rules allow:
/// never a crash.
TEST(StaticCheck, SurvivesEveryFlippedBit) {
    Compiler* compiler = test_compiler();
    ASSERT_NE(compiler, nullptr);
    const auto blob =
        compiler->compile(*MicrokernelSpec::parse("tile.avx2.r1.v1.u1.packed.packed.none"));
    ASSERT_TRUE(blob);
    int refused = 0;
    for (uint32_t bit = 0; bit < 8 * blob->text_bytes; bit += 3) {
        Blob flipped = *blob;
        flipped.bytes[bit / 8] = static_cast<uint8_t>(flipped.bytes[bit / 8] ^ (1u << bit % 8));
        const auto report = compiler->check(flipped, false);
        ASSERT_TRUE(report);
        refused += !report->accepted;
    }
    EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace whet::jit::cpu
