// SPDX-License-Identifier: Apache-2.0
// Suites and rows as text are read as written; families, flops and bytes are right.
#include "tools/whet/bench/case.hpp"

#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tools/whet/bench/buffers.hpp"

namespace whet::bench {
namespace {

struct SuiteRow {
    const char* name;
    size_t cases;
};
class Suites : public testing::TestWithParam<SuiteRow> {};

TEST_P(Suites, Loads) {
    const std::vector<Case> cases = load_suite(GetParam().name);
    EXPECT_EQ(cases.size(), GetParam().cases);
    std::set<std::string> names;
    for (const Case& one : cases) {
        EXPECT_EQ(one.suite, GetParam().name);
        EXPECT_GT(one.flops(), 0);
        EXPECT_GT(one.bytes(), 0);
        EXPECT_TRUE(names.insert(one.name).second) << one.name << " is there twice";
    }
}
INSTANTIATE_TEST_SUITE_P(All, Suites,
                         testing::Values(SuiteRow{"anchors", 20}, SuiteRow{"ansor", 72},
                                         SuiteRow{"harl", 56}, SuiteRow{"inference", 95},
                                         SuiteRow{"square", 3}),
                         [](const auto& info) { return std::string(info.param.name); });

struct TextRow {
    const char* name;
    const char* text;
    Extents dst;
    double flops;
    const char* family;
};
class Rows : public testing::TestWithParam<TextRow> {};

TEST_P(Rows, AreRead) {
    const Case one = parse_case_text(GetParam().text);
    EXPECT_EQ(one.dst_extents(), GetParam().dst);
    EXPECT_DOUBLE_EQ(one.flops(), GetParam().flops);
    EXPECT_EQ(one.family(), GetParam().family);
}
INSTANTIATE_TEST_SUITE_P(
    All, Rows,
    testing::Values(
        TextRow{"linear",
                "linear m=32 k=384 n=1536",
                {32, 1536},
                2.0 * 32 * 384 * 1536,
                "linear k=384 n=1536"},
        TextRow{
            "bmm", "bmm batch=3 m=2 k=5 n=7", {3, 2, 7}, 2.0 * 3 * 2 * 5 * 7, "bmm m=2 k=5 n=7"},
        TextRow{"strided",
                "conv2d batch=1 in_channels=3 out_channels=64 spatial=224x224 kernel=7x7 stride=2 "
                "padding=3",
                {1, 64, 112, 112},
                2.0 * 64 * 112 * 112 * 49 * 3,
                "conv2d in=3 out=64 spatial=224x224 kernel=7x7 stride=2"},
        TextRow{"depthwise",
                "conv2d batch=16 in_channels=64 out_channels=64 spatial=9x9 kernel=3x3 stride=1 "
                "padding=1 groups=64",
                {16, 64, 9, 9},
                2.0 * 16 * 64 * 81 * 9,
                "conv2d in=64 out=64 spatial=9x9 kernel=3x3 stride=1 groups=64"},
        TextRow{"dilated",
                "conv1d batch=1 in_channels=4 out_channels=8 spatial=20 kernel=3 stride=1 "
                "padding=0 dilation=2",
                {1, 8, 16},
                2.0 * 8 * 16 * 3 * 4,
                "conv1d in=4 out=8 spatial=20 kernel=3 stride=1 dilation=2"},
        TextRow{"transposed",
                "conv_transpose2d batch=1 in_channels=512 out_channels=256 spatial=4x4 kernel=4x4 "
                "stride=2 padding=1",
                {1, 256, 8, 8},
                2.0 * 512 * 16 * 16 * 256,
                "conv_transpose2d in=512 out=256 spatial=4x4 kernel=4x4 stride=2"},
        TextRow{"softmax", "softmax rows=5 columns=9", {5, 9}, 4.0 * 45, "softmax columns=9"},
        TextRow{"norm", "norm batch=2 m=3 n=4", {2}, 2.0 * 24, "norm m=3 n=4"}),
    [](const auto& info) { return std::string(info.param.name); });

struct BadRow {
    const char* name;
    const char* text;
};
class BadRows : public testing::TestWithParam<BadRow> {};

TEST_P(BadRows, AreRefused) {
    EXPECT_THROW(parse_case_text(GetParam().text), std::invalid_argument);
}
INSTANTIATE_TEST_SUITE_P(
    All, BadRows,
    testing::Values(
        BadRow{"empty", ""}, BadRow{"unknown", "matmul m=1 k=1 n=1"},
        BadRow{"missing", "linear m=1 k=2"}, BadRow{"zero", "linear m=0 k=2 n=3"},
        BadRow{"letters", "linear m=a k=2 n=3"}, BadRow{"no_equals", "linear m k=2 n=3"},
        BadRow{"rank", "conv2d batch=1 in_channels=1 out_channels=1 spatial=4 kernel=3x3"},
        BadRow{"groups", "conv1d batch=1 in_channels=3 out_channels=4 spatial=4 kernel=3 groups=2"},
        BadRow{"kernel_outside", "conv1d batch=1 in_channels=1 out_channels=1 spatial=2 kernel=5"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Suite, SaysWhatIsWrong) {
    EXPECT_THROW(load_suite("no-such-suite"), std::invalid_argument);
    const std::string path = testing::TempDir() + "whet_bench_bad_suite.json";
    std::ofstream(path) << "{\"cases\": 3}";
    EXPECT_THROW(load_suite(path), std::invalid_argument);
    std::ofstream(path, std::ios::trunc) << "not json";
    EXPECT_THROW(load_suite(path), std::invalid_argument);
    std::remove(path.c_str());
}

TEST(Rotation, GoesPastTheLastLevelCacheWithinItsLimits) {
    const double megabyte = 1024.0 * 1024;
    EXPECT_GE(static_cast<double>(rotation_copies(4 * megabyte, 32 * megabyte)) * 4, 40);
    EXPECT_EQ(rotation_copies(4 * megabyte, 4096 * megabyte),
              257);  // at most a gigabyte, and the one that passes it
    EXPECT_EQ(rotation_copies(16, 32 * megabyte), 2047);
    EXPECT_EQ(rotation_copies(4096 * megabyte, 32 * megabyte), 3);
}

}  // namespace
}  // namespace whet::bench
