// SPDX-License-Identifier: Apache-2.0
// Tests of the host description and the clocks: invariants here, cgroup trees made by hand.
#include "base/host.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "base/clock.hpp"

namespace whet::base {
namespace {

class Cgroup : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "whet_cgroup_XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    void write(const std::string& path, const std::string& text) {
        const std::filesystem::path file = root_ + "/" + path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text << '\n';
    }
    std::string root_;
};

TEST_F(Cgroup, VersionTwoTakesTheTightestOfTheChain) {
    write("a/cpu.max", "150000 100000");
    write("a/memory.max", "1000000");
    write("a/b/cpu.max", "max 100000");
    write("a/b/memory.max", "2000000");
    const HostLimits limits = cgroup_limits("0::/a/b\n", root_);
    EXPECT_EQ(limits.cpu_quota, 1.5);
    EXPECT_EQ(limits.memory_bytes, 1000000);
}

TEST_F(Cgroup, VersionOneReadsItsControllers) {
    write("cpu,cpuacct/x/cpu.cfs_quota_us", "50000");
    write("cpu,cpuacct/x/cpu.cfs_period_us", "100000");
    write("memory/memory.limit_in_bytes", "9223372036854771712");
    write("memory/x/memory.limit_in_bytes", "4096000");
    const HostLimits limits =
        cgroup_limits("5:cpu,cpuacct:/x\n4:memory:/x\n1:name=systemd:/x\n", root_);
    EXPECT_EQ(limits.cpu_quota, 0.5);
    EXPECT_EQ(limits.memory_bytes, 4096000);
}

TEST_F(Cgroup, InAContainerTheMountIsTheGroup) {
    write("cpu.max", "200000 100000");
    EXPECT_EQ(cgroup_limits("0::/../outside/of/the/mount\n", root_).cpu_quota, 2.0);
    EXPECT_EQ(cgroup_limits("0::/\n", root_).cpu_quota, 2.0);
}

TEST_F(Cgroup, NothingToReadMeansNoLimit) {
    for (const char* text : {"", "nonsense", "0::/a\n"}) {
        const HostLimits limits = cgroup_limits(text, root_);
        EXPECT_FALSE(limits.cpu_quota.has_value());
        EXPECT_FALSE(limits.memory_bytes.has_value());
    }
}

TEST(Host, IsPlausible) {
    const Host host = describe_host();
    EXPECT_GE(host.limits.cores, 1);
    EXPECT_GE(host.caches.l1_data_bytes, 8 << 10);
    EXPECT_GE(host.caches.l2_bytes, host.caches.l1_data_bytes);
    EXPECT_GE(host.caches.last_level_bytes, host.caches.l2_bytes);
    EXPECT_FALSE(host.cpu.empty());
    EXPECT_EQ(host.features.avx2_fma,
              __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    EXPECT_LE(host.features.avx512, host.features.avx2_fma);
    EXPECT_LE(host.features.avx512_bf16, host.features.avx512);
}

TEST(Clock, Advances) {
    const std::int64_t before = steady_ns();
    const std::int64_t cpu_before = thread_cpu_ns();
    const std::uint64_t ticks_before = cycles();
    EXPECT_GT(cycles_per_ns(), 0.1);
    EXPECT_LT(cycles_per_ns(), 20.0);
    EXPECT_GT(steady_ns(), before);
    EXPECT_GE(thread_cpu_ns(), cpu_before);
    EXPECT_GE(process_cpu_ns(), cpu_before);
    EXPECT_GT(cycles_after(), ticks_before);
}

}  // namespace
}  // namespace whet::base
