// SPDX-License-Identifier: Apache-2.0
// The machine as this process may use it: instruction sets, caches, cores, limits.
#pragma once

#include <cstdint>
#include <string>

#include "base/cgroup.hpp"

namespace whet::base {

/// What the CPU offers and the operating system has switched on (CPUID and XCR0, never the CPU's
/// name).
struct HostFeatures {
    bool avx2_fma = false;     ///< AVX2, FMA and BMI2 with YMM state
    bool avx512 = false;       ///< F, VL, DQ and BW with ZMM and mask state, besides avx2_fma
    bool avx512_bf16 = false;  ///< BF16, besides avx512
    bool amx_bf16 = false;     ///< tile state and AMX-BF16, besides avx512
};

/// Cache sizes of one core in bytes; 0 when unknown.
struct HostCaches {
    std::int64_t l1_data_bytes = 0;
    std::int64_t l2_bytes = 0;
    std::int64_t last_level_bytes = 0;  ///< the whole of it, shared by `last_level_cores`
    int last_level_cores = 1;
};

struct Host {
    HostFeatures features;
    HostCaches caches;
    HostLimits limits;
    std::string cpu;  ///< brand string, for people only
};

/// Reads everything. Opens a few small files of /sys and /proc: about 0.5 ms. Thread-safe.
Host describe_host();

HostFeatures host_features() noexcept;

}  // namespace whet::base
