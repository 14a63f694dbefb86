// SPDX-License-Identifier: Apache-2.0
// The allowance of tuning.
#include "runtime/budget/budget.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"

namespace whet::runtime {
namespace {

constexpr double kBusyShare = 0.1;   // of one core, when no core is idle
constexpr double kIdleEnough = 0.8;  // cores' worth of idle time that counts as an idle core
constexpr double kLeastElapsed = 0.05;  // seconds between two readings that are compared
constexpr double kSlower =
    1.25;  // the application's calls against their usual time: then stop for a while
constexpr double kCpuStalled = 0.1;      // of the time, nothing of the group ran though it wanted to
constexpr double kMemoryStalled = 0.05;  // of the time, somebody waited for memory
constexpr double kBackOffSeconds = 2, kLongestBackOff = 32;  // doubled each time it was not enough
constexpr double kBackOffShare = 0.02;  // of one core
constexpr double kBackOffPart = 0.1;    // of a share that was asked for

}  // namespace

MachineTimes read_machine_times() {
    return {static_cast<double>(base::steady_ns()) * 1e-9, base::idle_seconds()};
}

Budget::Budget(const base::Options& options, const base::HostLimits& limits)
    : options_(options), limits_(limits) {}

double Budget::share(const MachineTimes& now, double forge_seconds) {
    if (options_.budget_cpu) {
        const double asked = *options_.budget_cpu;
        return backs_off(now.seconds) ? std::min(asked, std::max(kBackOffShare, kBackOffPart * asked))
                                      : asked;
    }
    const double elapsed = now.seconds - last_.seconds;
    if (last_.seconds > 0 && elapsed > kLeastElapsed) {
        const double idle =
            now.idle_seconds - last_.idle_seconds + (forge_seconds - last_forge_seconds_);
        idle_core_ = idle / elapsed >= kIdleEnough;
    }
    if (last_.seconds == 0 || elapsed > kLeastElapsed) {
        last_ = now;
        last_forge_seconds_ = forge_seconds;
    }
    if (backs_off(now.seconds)) return kBackOffShare;
    // Under a quota, what tuning uses is taken from the application: there is no idle core to have.
    const bool limited =
        limits_.cpu_quota && *limits_.cpu_quota < static_cast<double>(limits_.cores);
    return limits_.cores > 1 && idle_core_ && !limited ? 1.0 : kBusyShare;
}

/// A reason that shows soon after the last pause was not over then: the next one is longer.
void Budget::back_off(double now_seconds) {
    if (backs_off(now_seconds)) return;
    const bool again = back_off_length_ > 0 && now_seconds < back_off_until_ + kBackOffSeconds;
    back_off_length_ = again ? std::min(2 * back_off_length_, kLongestBackOff) : kBackOffSeconds;
    back_off_until_ = now_seconds + back_off_length_;
}

void Budget::observe_latency(double relative, double now_seconds) {
    if (relative > kSlower) back_off(now_seconds);
}

void Budget::observe_strain(const base::HostStrain& strain, double now_seconds) {
    const double elapsed = now_seconds - strain_seconds_;
    if (strain_ && elapsed < kLeastElapsed) return;
    // Counters that fell are those of another group.
    if (strain_ && strain.throttled_periods >= strain_->throttled_periods) {
        const double cpu = strain.cpu_stalled_seconds - strain_->cpu_stalled_seconds;
        const double memory = strain.memory_stalled_seconds - strain_->memory_stalled_seconds;
        if (strain.throttled_periods > strain_->throttled_periods || cpu > kCpuStalled * elapsed ||
            memory > kMemoryStalled * elapsed)
            back_off(now_seconds);
    }
    strain_ = strain;
    strain_seconds_ = now_seconds;
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

int64_t within_quarter(int64_t bytes, const std::optional<int64_t>& cgroup_bytes) {
    return cgroup_bytes ? std::min(bytes, *cgroup_bytes / 4) : bytes;
}

}  // namespace whet::runtime
