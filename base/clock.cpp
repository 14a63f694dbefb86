// SPDX-License-Identifier: Apache-2.0
// Clocks over clock_gettime and the time-stamp counter.
#include "base/clock.hpp"

#include <cpuid.h>
#include <time.h>

#include <atomic>

namespace whet::base {
namespace {

std::int64_t read_clock(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// One pair of readings, taken close together: the tightest of a few tries.
struct Pair {
    std::int64_t ns;
    std::uint64_t ticks;
};

Pair read_pair() {
    constexpr int kTries = 5;  // enough to see one try without an interrupt between the readings
    Pair best{};
    std::uint64_t best_gap = ~std::uint64_t{0};
    for (int i = 0; i < kTries; ++i) {
        const std::uint64_t before = cycles_after();
        const std::int64_t now = steady_ns();
        const std::uint64_t after = cycles_after();
        if (after - before >= best_gap) continue;
        best_gap = after - before;
        best = {now, before + (after - before) / 2};
    }
    return best;
}

}  // namespace

std::int64_t steady_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
std::int64_t thread_cpu_ns() noexcept { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
std::int64_t process_cpu_ns() noexcept { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }

bool cycles_are_steady() noexcept {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

double cycles_per_ns() noexcept {
    constexpr std::int64_t kWindowNs =
        1'000'000;  // readings are good to about 20 ns: 2e-5 of this window
    static std::atomic<double> rate{0};
    double value = rate.load(std::memory_order_acquire);
    if (value > 0) return value;
    const Pair first = read_pair();
    while (steady_ns() - first.ns < kWindowNs) {
    }
    const Pair last = read_pair();
    value = static_cast<double>(last.ticks - first.ticks) / static_cast<double>(last.ns - first.ns);
    rate.store(value, std::memory_order_release);
    return value;
}

}  // namespace whet::base
