// SPDX-License-Identifier: Apache-2.0
// What Whet did, as rows and totals; printed as text, JSON or for Prometheus.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace whet::runtime {

struct ReportRow {
    std::string op, schedule, reason;
    uint64_t id = 0;
    bool served_by_whet = false;
    uint64_t calls = 0, served_calls = 0;
    double before_us = 0, now_us = 0, bound_us = 0;  ///< 0: unknown
    /// The original's over the plan's sampled calls, with a 95 % interval; 0: not sampled enough.
    double gain = 0, gain_low = 0, gain_high = 0;
};

struct Report {
    std::vector<ReportRow> rows;  ///< most time first
    uint64_t trials = 0, compiles = 0, trials_without_compile = 0, published = 0, rolled_back = 0,
             declined = 0;
    uint64_t bypassed_unsupported = 0, bypassed_threads = 0,
        bypassed_full = 0;  ///< calls that no site was asked for
    uint64_t rejected_static = 0, rejected_wrong = 0, rejected_crashed = 0, rejected_slow = 0;
    double forge_cpu_seconds = 0,
           program_cpu_seconds = 0;  ///< of tuning, in the forge and in this process
    double build_ms_p50 = 0, build_ms_p95 = 0, peak_gflops = 0, stream_gbs = 0;
    uint64_t code_bytes = 0, packed_bytes = 0, frozen_bytes = 0;
    int forge_restarts = 0;
    uint32_t sites_open = 0;
    std::string forge;  ///< "process", "thread" or why there is none
    std::string doing;
    std::string version, isa, numerics;

    uint64_t calls() const;
    uint64_t served_calls() const;
    uint64_t rejected() const {
        return rejected_static + rejected_wrong + rejected_crashed + rejected_slow;
    }
    double saved_seconds() const;
};

/// Sites that have Prometheus series of their own: the most expensive ones, so that a program of
/// many shapes does not flood its monitoring.
inline constexpr size_t kMaxSiteSeries = 100;
inline constexpr size_t kMaxLabelBytes = 120;  ///< before escaping

/// format: "text", "json" or "prometheus". invalid_argument otherwise.
base::Result<std::string> print_report(const Report& report, std::string_view format);

}  // namespace whet::runtime
