// SPDX-License-Identifier: Apache-2.0
// Paired timing of two things: interleaved samples, median of log-ratios, its interval, and when it
// is enough.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace whet::runtime::forge {

/// Estimate of a ratio from paired samples.
struct RatioEstimate {
    double ratio = 1;          ///< exp(median of the log-ratios)
    double low = 0, high = 0;  ///< 95 % interval of the median; 0 and infinity while there are too
                               ///< few pairs (below 6)
    int pairs = 0;
};

/// Median and its distribution-free 95 % interval from order statistics (the sign test inverted).
RatioEstimate estimate_ratio(std::vector<double> log_ratios);

/// The sequential rule of a trial, as data: pure, so that tests script it.
struct StoppingRule {
    static constexpr double kMargin =
        1.02;  ///< a winner must be faster by this ratio: less is lost to drift
    /// After a quad, a candidate is dropped when its median ratio lies below the threshold. The
    /// first ones follow Highway's auto_tune (1.25x slower is dropped at once), tighter because
    /// pairs spread by 1 to 2 % here; the later ones close in on the margin, so that a plan as fast
    /// as the incumbent costs six quads at most.
    static constexpr double kDropAfter[] = {0.96, 0.985, 1.0, 1.005, 1.01, 1.015};
    enum class Decision : uint8_t { more, drop, win };
    /// quads: groups of two pairs taken so far; max_quads: then a candidate that has not won is
    /// dropped.
    static Decision decide(const RatioEstimate& estimate, int quads, int max_quads);
};

/// One thing to be timed: runs once more and returns the time of one call in nanoseconds.
using Sample = std::function<double()>;

struct PairedResult {
    RatioEstimate estimate;     ///< time of b / time of a: above 1, a is faster
    double a_ns = 0, b_ns = 0;  ///< medians
    int quads = 0, rejected_quads = 0;
    StoppingRule::Decision decision = StoppingRule::Decision::more;
};

/// Samples a and b in ABBA and BAAB order in turn (a fixed order is biased by 1 to 2 %). A sample
/// during which the thread was switched out, or in which wall time and CPU time differ, is taken
/// again at once; a quad that gets no clean sample is thrown away, and after a few such the result
/// has fewer quads than asked for. `fixed`: takes max_quads quads and decides nothing.
PairedResult run_paired(const Sample& a, const Sample& b, int max_quads, bool fixed);

}  // namespace whet::runtime::forge
