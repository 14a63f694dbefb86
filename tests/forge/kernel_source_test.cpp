// SPDX-License-Identifier: Apache-2.0
// Tests of where microkernels come from, and of what the static check keeps out.
#include "runtime/forge/kernel_source.hpp"

#include <gtest/gtest.h>

namespace whet::runtime::forge {
namespace {

jit::MicrokernelSpec small_tile(uint8_t rows) {
    jit::MicrokernelSpec spec;
    spec.isa = jit::Isa::avx2;
    spec.rows = rows;
    spec.vectors = 1;
    return spec;
}

TEST(KernelSource, CompilesOnceAndRemembers) {
    KernelSource source(WHET_FORGE_DIRECTORY, false);
    jit::MicrokernelSpec spec = small_tile(3);
    spec.unroll = 8;
    spec.prefetch = 24;
    if (source.ready(spec)) GTEST_SKIP() << "the spec is installed ready";
    const auto refused = source.kernel(spec, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Code::not_found);
    const auto first = source.kernel(spec, true);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE((*first)->proven);
    EXPECT_TRUE(source.ready(spec));
    EXPECT_EQ((*source.kernel(spec, false))->id, (*first)->id);
    EXPECT_EQ(source.compiles(), 1u);
    EXPECT_GT(source.build_ms(0.5), 0);
    const auto report = source.inspect(**first);
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->accepted);
    EXPECT_FALSE(report->disassembly.empty());
}

TEST(KernelSource, BlobsOfTheStoreNeedNoCompiler) {
    KernelSource compiler(WHET_FORGE_DIRECTORY, false);
    const auto kernel = compiler.kernel(small_tile(2), true);
    ASSERT_TRUE(kernel);
    KernelSource source("/nowhere", false);
    EXPECT_FALSE(source.ready(small_tile(2)));
    source.add_stored({(*kernel)->blob});
    const auto stored = source.kernel(small_tile(2), false);
    ASSERT_TRUE(stored);
    EXPECT_EQ((*stored)->id, (*kernel)->id);
    const auto missing = source.kernel(small_tile(4), true);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, base::Code::io_error);
}

struct PlantCase {
    const char* name;
    std::vector<uint8_t> code;
};
class PlantedCode : public testing::TestWithParam<PlantCase> {};

TEST_P(PlantedCode, IsRefusedByTheStaticCheckUnlessSkipped) {
    KernelSource source(WHET_FORGE_DIRECTORY, false);
    const auto refused = source.plant(small_tile(4), GetParam().code, false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Code::verify_failed);
    EXPECT_EQ(source.rejected_static(), 1u);
    const auto skipped = source.plant(small_tile(4), GetParam().code, true);
    ASSERT_TRUE(skipped);
    EXPECT_FALSE((*skipped)->proven);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, PlantedCode,
    testing::Values(PlantCase{"ud2", {0x0f, 0x0b}}, PlantCase{"endless_loop", {0xeb, 0xfe}},
                    // a counter kept in the code itself: inc dword [rip + 0]; ret
                    PlantCase{"state", {0xff, 0x05, 0, 0, 0, 0, 0xc3}},
                    PlantCase{"system_call", {0x0f, 0x05, 0xc3}},
                    PlantCase{"absolute_address", {0x8b, 0x04, 0x25, 0, 0, 0, 0, 0xc3}},
                    PlantCase{"not_code", {0x06, 0x07, 0x0e}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace whet::runtime::forge
