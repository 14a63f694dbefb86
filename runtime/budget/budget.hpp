// SPDX-License-Identifier: Apache-2.0
// How much tuning may cost right now.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/cgroup.hpp"
#include "base/env.hpp"
#include "runtime/forge/protocol.hpp"

namespace whet::runtime {

/// One moment of the cores that this process may use.
struct MachineTimes {
    double seconds = 0;       ///< steady clock
    double idle_seconds = 0;  ///< summed over those cores
};
MachineTimes read_machine_times();

/// Turns the options, what the system allows, and how the application fares into the forge's
/// allowance. It backs off where the application's own calls take longer than usual, its quota is
/// used up, or threads wait for cores or memory; the longer that lasts, the longer. One thread.
class Budget {
public:
    Budget(const base::Options& options, const base::HostLimits& limits);

    /// What the system allows now: quotas and cpusets change while a program runs.
    void set_limits(const base::HostLimits& limits) { limits_ = limits; }
    /// Share for the coming quarter of a second. forge_seconds: CPU time that the forge has used so
    /// far.
    double share(const MachineTimes& now, double forge_seconds);
    /// Tells how the application's sampled calls now compare with their usual time (1: as always).
    void observe_latency(double relative, double now_seconds);
    /// Tells the counters of the process's groups, about every quarter of a second.
    void observe_strain(const base::HostStrain& strain, double now_seconds);
    bool backs_off(double now_seconds) const { return now_seconds < back_off_until_; }
    forge::ControlMessage control(const MachineTimes& now, double forge_seconds, uint64_t trials,
                                  bool paused);
    bool used_up(double forge_seconds, uint64_t trials) const;

private:
    void back_off(double now_seconds);

    const base::Options& options_;
    base::HostLimits limits_;
    MachineTimes last_;
    double last_forge_seconds_ = 0;
    bool idle_core_ = true;
    std::optional<base::HostStrain> strain_;
    double strain_seconds_ = 0;  ///< when it was read
    double back_off_until_ = 0, back_off_length_ = 0;
};

/// Bytes that are asked for, but never more than a quarter of what the cgroup allows.
int64_t within_quarter(int64_t bytes, const std::optional<int64_t>& cgroup_bytes);

}  // namespace whet::runtime
