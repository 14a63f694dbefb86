// SPDX-License-Identifier: Apache-2.0
// How much tuning may cost right now.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/env.hpp"
#include "runtime/forge/protocol.hpp"

namespace whet::runtime {

/// CPU time of the machine as /proc/stat counts it, and that of this process, for one moment.
struct MachineTimes {
    double seconds = 0;       ///< steady clock
    double idle_seconds = 0;  ///< summed over all cores
};
MachineTimes read_machine_times();

/// Turns the options, the machine's idleness and the application's own latency into the forge's
/// allowance. One thread.
class Budget {
public:
    explicit Budget(const base::Options& options, int cores, std::optional<double> quota);

    /// Share for the coming quarter of a second. forge_seconds: CPU time that the forge has used so
    /// far.
    double share(const MachineTimes& now, double forge_seconds);
    /// Tells how the application's sampled calls now compare with their usual time (1: as always).
    void observe_latency(double relative, double now_seconds);
    forge::ControlMessage control(const MachineTimes& now, double forge_seconds, uint64_t trials,
                                  bool paused);
    bool used_up(double forge_seconds, uint64_t trials) const;

private:
    const base::Options& options_;
    const int cores_;
    const std::optional<double> quota_;
    MachineTimes last_;
    double last_forge_seconds_ = 0;
    bool idle_core_ = true;
    double back_off_until_ = 0;
};

}  // namespace whet::runtime
