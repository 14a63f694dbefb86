// SPDX-License-Identifier: Apache-2.0
// Clocks: steady nanoseconds, CPU time of the calling thread, and the cycle counter.
#pragma once

#include <x86intrin.h>

#include <cstdint>

namespace whet::base {

/// Nanoseconds of CLOCK_MONOTONIC. About 25 ns.
std::int64_t steady_ns() noexcept;
/// CPU nanoseconds of the calling thread. A system call, about 200 ns.
std::int64_t thread_cpu_ns() noexcept;
/// CPU nanoseconds of the process, all threads.
std::int64_t process_cpu_ns() noexcept;

/// The time-stamp counter, not ordered with the instructions around it. About 10 ns.
inline std::uint64_t cycles() noexcept { return __rdtsc(); }
/// The time-stamp counter after everything before it has finished. About 15 ns.
inline std::uint64_t cycles_after() noexcept {
    unsigned int processor;
    return __rdtscp(&processor);
}

/// Whether the counter runs at one rate in all power states (CPUID 0x80000007, EDX bit 8).
/// Elsewhere use steady_ns.
bool cycles_are_steady() noexcept;

/// Counter ticks per nanosecond. The first call spins for about a millisecond; later calls are one
/// atomic load. Thread-safe.
double cycles_per_ns() noexcept;

}  // namespace whet::base
