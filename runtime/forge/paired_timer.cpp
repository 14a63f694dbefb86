// SPDX-License-Identifier: Apache-2.0
// Paired timing of two things: interleaved samples, median of log-ratios, its interval, and when it
// is enough.
#include "runtime/forge/paired_timer.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "base/clock.hpp"

namespace whet::runtime::forge {
namespace {

constexpr double kHopeless = 0.75;  ///< after one pair: no second look at a candidate so much slower
constexpr double kTail = 0.025;  ///< each side of a 95 % interval
constexpr double kStolenShare =
    0.02;  ///< wall time above CPU time by more than this: the sample is thrown away
constexpr double kClockSlackNs = 20'000;  ///< of the kernel's CPU time accounting, per sample
constexpr double kLongSampleNs =
    500'000;  ///< CPU time from which a disturbed sample is corrected, not repeated
constexpr int kSampleTries = 4;  ///< a disturbed sample is taken again at once, so often in all
constexpr int kMostRejected =
    3;  ///< quads without four clean samples: the machine is too busy to tell

double median(std::vector<double>& values) {
    if (values.empty()) return 0;
    const size_t middle = values.size() / 2;
    std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
    const double upper = values[middle];
    if (values.size() % 2 == 1) return upper;
    return (upper +
            *std::max_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle))) /
           2;
}

int64_t involuntary_switches() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/// Takes a sample that nothing disturbed; false when every try was. A long sample can hardly avoid
/// a switch on a busy machine: there the CPU time is taken, whose error (a cache refilled, a clock
/// tick) is small against its length.
bool take_clean(const Sample& sample, double* ns) {
    for (int i = 0; i < kSampleTries; ++i) {
        const int64_t switches = involuntary_switches(), cpu = base::thread_cpu_ns(),
                      wall = base::steady_ns();
        *ns = sample();
        const auto wall_ns = static_cast<double>(base::steady_ns() - wall);
        const auto cpu_ns = static_cast<double>(base::thread_cpu_ns() - cpu);
        const bool stolen = wall_ns > cpu_ns * (1 + kStolenShare) + kClockSlackNs;
        if (involuntary_switches() == switches && !stolen) return true;
        if (cpu_ns < kLongSampleNs) continue;
        *ns *= std::min(1.0, cpu_ns / wall_ns);
        return true;
    }
    return false;
}

}  // namespace

RatioEstimate estimate_ratio(std::vector<double> log_ratios) {
    RatioEstimate estimate;
    estimate.pairs = static_cast<int>(log_ratios.size());
    estimate.high = std::numeric_limits<double>::infinity();
    if (log_ratios.empty()) return estimate;
    std::sort(log_ratios.begin(), log_ratios.end());
    const size_t n = log_ratios.size();
    estimate.ratio =
        std::exp(n % 2 == 1 ? log_ratios[n / 2] : (log_ratios[n / 2 - 1] + log_ratios[n / 2]) / 2);
    // Largest k with P(Binomial(n, 1/2) < k) <= kTail; the interval is [x_k, x_{n+1-k}], counted
    // from 1.
    double term = std::pow(0.5, static_cast<double>(n)), sum = 0;
    size_t k = 0;
    while (k < n && sum + term <= kTail) {
        sum += term;
        term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
        ++k;
    }
    if (k == 0) return estimate;
    estimate.low = std::exp(log_ratios[k - 1]);
    estimate.high = std::exp(log_ratios[n - k]);
    return estimate;
}

StoppingRule::Decision StoppingRule::decide(const RatioEstimate& estimate, int quads,
                                            int max_quads) {
    if (quads <= 0) return Decision::more;
    const size_t at = std::min<size_t>(static_cast<size_t>(quads), std::size(kDropAfter)) - 1;
    if (estimate.ratio < kDropAfter[at]) return Decision::drop;
    if (estimate.low > 1 && estimate.ratio >= kMargin) return Decision::win;
    return quads >= max_quads ? Decision::drop : Decision::more;
}

PairedResult run_paired(const Sample& a, const Sample& b, int max_quads, bool fixed) {
    PairedResult result;
    std::vector<double> logs, a_samples, b_samples;
    bool b_first = false;
    while (result.quads < max_quads && result.rejected_quads < kMostRejected) {
        double a_ns[2], b_ns[2];
        bool clean = b_first ? take_clean(b, &b_ns[0]) && take_clean(a, &a_ns[0])
                             : take_clean(a, &a_ns[0]) && take_clean(b, &b_ns[0]);
        if (clean && !fixed && result.quads == 0 && b_ns[0] < kHopeless * a_ns[0]) {
            result.quads = 1;
            result.a_ns = a_ns[0];
            result.b_ns = b_ns[0];
            result.estimate = estimate_ratio({std::log(b_ns[0] / a_ns[0])});
            result.decision = StoppingRule::Decision::drop;
            return result;
        }
        clean = clean && (b_first ? take_clean(a, &a_ns[1]) && take_clean(b, &b_ns[1])
                                  : take_clean(b, &b_ns[1]) && take_clean(a, &a_ns[1]));
        if (!clean) {
            ++result.rejected_quads;
            continue;
        }
        b_first = !b_first;
        ++result.quads;
        for (int i = 0; i < 2; ++i) {
            logs.push_back(std::log(b_ns[i] / a_ns[i]));
            a_samples.push_back(a_ns[i]);
            b_samples.push_back(b_ns[i]);
        }
        result.estimate = estimate_ratio(logs);
        if (fixed) continue;
        result.decision = StoppingRule::decide(result.estimate, result.quads, max_quads);
        if (result.decision != StoppingRule::Decision::more) break;
    }
    result.a_ns = median(a_samples);
    result.b_ns = median(b_samples);
    return result;
}

}  // namespace whet::runtime::forge
