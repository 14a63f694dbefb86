// SPDX-License-Identifier: Apache-2.0
// The bench's statistics: medians of paired log-ratios with intervals, geometric means,
// percentiles, bootstraps.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace whet::bench {

/// An estimate and its 95 % interval.
struct Interval {
    double ratio = 1, low = 1, high = 1;
    bool holds(double value) const { return low <= value && value <= high; }
};

/// One quad of segments in the order ABBA or BAAB: the times of both sides, in order of
/// measurement.
struct Quad {
    double a[2] = {0, 0}, b[2] = {0, 0};
};

/// The median; the mean of the middle two for an even count. Empty: 0. Reorders `values`.
double median_of(std::vector<double>& values);
/// The value at `share` (0 to 1) of the sorted values, interpolated. Empty: 0. Reorders `values`.
double quantile_of(std::vector<double>& values, double share);

/// b / a from the median of the paired log-ratios (first with first, second with second); the
/// interval is a bootstrap over quads (Efron 1979, percentile method), because the two pairs of a
/// quad are not independent. O(quads * 600).
Interval ratio_of(const std::vector<Quad>& quads, uint64_t seed);

/// The geometric mean of ratios with their intervals. Errors of single ratios (normal in the
/// logarithm) add up independently: this is the interval of the mean of these cases, not of cases
/// drawn anew. Empty: 1, 1, 1.
Interval geomean_of(const std::vector<Interval>& ratios);

/// The interval of statistic(sample) over resampled blocks (percentile method, `resamples` times).
/// `statistic` gets the indices of the drawn blocks.
Interval bootstrap_blocks(size_t blocks, int resamples, uint64_t seed,
                          const std::function<double(const std::vector<size_t>&)>& statistic);

/// SplitMix64 (Steele, Lea, Flood 2014): small, seeded, the same everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next();
    size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }
    float uniform();  ///< in [-1, 1)

private:
    uint64_t state_;
};

}  // namespace whet::bench
