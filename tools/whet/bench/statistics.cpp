// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/statistics.hpp"

#include <algorithm>
#include <cmath>

namespace whet::bench {
namespace {

constexpr int kResamples = 600;  // the ends of a 95 % interval are the 15th values from either side
constexpr double kNormal95 = 1.959964;  // two-sided 95 % of the normal distribution

}  // namespace

uint64_t Random::next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

float Random::uniform() {
    return static_cast<float>(static_cast<double>(next() >> 40) * 0x1p-23 - 1.0);
}

double median_of(std::vector<double>& values) { return quantile_of(values, 0.5); }

double quantile_of(std::vector<double>& values, double share) {
    if (values.empty()) return 0;
    const double position = share * static_cast<double>(values.size() - 1);
    const auto lower = static_cast<std::ptrdiff_t>(position);
    std::nth_element(values.begin(), values.begin() + lower, values.end());
    const double low = values[static_cast<size_t>(lower)];
    const double part = position - static_cast<double>(lower);
    if (part <= 0) return low;
    return low + part * (*std::min_element(values.begin() + lower + 1, values.end()) - low);
}

Interval ratio_of(const std::vector<Quad>& quads, uint64_t seed) {
    if (quads.empty()) return {};
    std::vector<double> logs;
    for (const Quad& quad : quads)
        for (int pair = 0; pair < 2; ++pair) logs.push_back(std::log(quad.b[pair] / quad.a[pair]));
    std::vector<double> sample = logs;
    const double center = median_of(sample);
    const Interval logarithms =
        bootstrap_blocks(quads.size(), kResamples, seed, [&](const std::vector<size_t>& drawn) {
            sample.clear();
            for (const size_t i : drawn)
                sample.insert(sample.end(), {logs[2 * i], logs[2 * i + 1]});
            return median_of(sample);
        });
    return {std::exp(center), std::exp(std::min(logarithms.low, center)),
            std::exp(std::max(logarithms.high, center))};
}

Interval geomean_of(const std::vector<Interval>& ratios) {
    if (ratios.empty()) return {};
    double sum = 0, variance = 0;
    for (const Interval& one : ratios) {
        sum += std::log(one.ratio);
        const double error = std::log(one.high / one.low) / (2 * kNormal95);
        variance += error * error;
    }
    const auto count = static_cast<double>(ratios.size());
    const double mean = sum / count, half = kNormal95 * std::sqrt(variance) / count;
    return {std::exp(mean), std::exp(mean - half), std::exp(mean + half)};
}

Interval bootstrap_blocks(size_t blocks, int resamples, uint64_t seed,
                          const std::function<double(const std::vector<size_t>&)>& statistic) {
    std::vector<size_t> drawn(blocks);
    for (size_t i = 0; i < blocks; ++i) drawn[i] = i;
    Interval interval;
    interval.ratio = interval.low = interval.high = statistic(drawn);
    if (blocks < 2) return interval;
    Random random(seed);
    std::vector<double> values;
    for (int i = 0; i < resamples; ++i) {
        for (size_t& index : drawn) index = random.below(blocks);
        values.push_back(statistic(drawn));
    }
    interval.low = quantile_of(values, 0.025);
    interval.high = quantile_of(values, 0.975);
    return interval;
}

}  // namespace whet::bench
