// SPDX-License-Identifier: Apache-2.0
// Tests of the host description and the clocks: invariants.
#include "base/host.hpp"

#include <gtest/gtest.h>

#include "base/clock.hpp"

namespace whet::base {
namespace {

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
