// SPDX-License-Identifier: Apache-2.0
// The allowance of tuning.
#include "runtime/budget/budget.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/clock.hpp"

namespace whet::runtime {
namespace {

constexpr double kBusyShare = 0.1;   // of one core, when no core is idle
constexpr double kIdleEnough = 0.8;  // cores' worth of idle time that counts as an idle core
constexpr double kSlower =
    1.25;  // the application's calls against their usual time: then stop for a while
constexpr double kBackOffSeconds = 2;
constexpr double kBackOffShare = 0.02;

}  // namespace

MachineTimes read_machine_times() {
    MachineTimes times;
    times.seconds = static_cast<double>(base::steady_ns()) * 1e-9;
    if (std::FILE* const file = std::fopen("/proc/stat", "re")) {
        unsigned long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0;
        if (std::fscanf(file, "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                        &waiting) == 5) {
            times.idle_seconds =
                static_cast<double>(idle + waiting) / static_cast<double>(::sysconf(_SC_CLK_TCK));
        }
        std::fclose(file);
    }
    return times;
}

Budget::Budget(const base::Options& options, int cores, std::optional<double> quota)
    : options_(options), cores_(cores), quota_(quota) {}

double Budget::share(const MachineTimes& now, double forge_seconds) {
    if (options_.budget_cpu)
        return now.seconds < back_off_until_ ? std::min(*options_.budget_cpu, kBackOffShare)
                                             : *options_.budget_cpu;
    const double elapsed = now.seconds - last_.seconds;
    if (last_.seconds > 0 && elapsed > 0.05) {
        const double idle =
            now.idle_seconds - last_.idle_seconds + (forge_seconds - last_forge_seconds_);
        idle_core_ = idle / elapsed >= kIdleEnough;
    }
    if (last_.seconds == 0 || elapsed > 0.05) {
        last_ = now;
        last_forge_seconds_ = forge_seconds;
    }
    if (now.seconds < back_off_until_) return kBackOffShare;
    // Under a quota, what tuning uses is taken from the application: there is no idle core to have.
    const bool limited = quota_ && *quota_ < static_cast<double>(cores_);
    return cores_ > 1 && idle_core_ && !limited ? 1.0 : kBusyShare;
}

void Budget::observe_latency(double relative, double now_seconds) {
    if (relative > kSlower) back_off_until_ = now_seconds + kBackOffSeconds;
}

forge::ControlMessage Budget::control(const MachineTimes& now, double forge_seconds,
                                      uint64_t trials, bool paused) {
    forge::ControlMessage message;
    // Without trials left, new row counts still borrow plans or get a first one.
    message.paused = paused || forge_seconds >= options_.budget_seconds;
    message.cpu_share = share(now, forge_seconds);
    if (std::isfinite(options_.budget_seconds))
        message.seconds_left = std::max(0.0, options_.budget_seconds - forge_seconds);
    if (options_.budget_trials != std::numeric_limits<int64_t>::max()) {
        message.trials_left =
            std::max<int64_t>(0, options_.budget_trials - static_cast<int64_t>(trials));
    }
    return message;
}

bool Budget::used_up(double forge_seconds, uint64_t trials) const {
    return forge_seconds >= options_.budget_seconds ||
           static_cast<int64_t>(trials) >= options_.budget_trials;
}

}  // namespace whet::runtime
