// SPDX-License-Identifier: Apache-2.0
// The bench's statistics against values known by hand.
#include "tools/whet/bench/statistics.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace whet::bench {
namespace {

TEST(Quantile, InterpolatesBetweenSortedValues) {
    std::vector<double> none, one{3}, four{4, 1, 3, 2}, five{5, 1, 4, 2, 3};
    EXPECT_EQ(median_of(none), 0);
    EXPECT_EQ(median_of(one), 3);
    EXPECT_DOUBLE_EQ(median_of(four), 2.5);
    EXPECT_DOUBLE_EQ(median_of(five), 3);
    EXPECT_DOUBLE_EQ(quantile_of(five, 0), 1);
    EXPECT_DOUBLE_EQ(quantile_of(five, 1), 5);
    EXPECT_DOUBLE_EQ(quantile_of(five, 0.25), 2);
    EXPECT_DOUBLE_EQ(quantile_of(four, 0.99), 3.97);
}

TEST(RatioOf, IsExactWithoutNoise) {
    const std::vector<Quad> quads(7, Quad{{2, 4}, {3, 6}});
    const Interval ratio = ratio_of(quads, 1);
    EXPECT_NEAR(ratio.ratio, 1.5, 1e-12);
    EXPECT_NEAR(ratio.low, 1.5, 1e-12);
    EXPECT_NEAR(ratio.high, 1.5, 1e-12);
}

TEST(RatioOf, IgnoresDriftThatBothSidesShare) {
    std::vector<Quad> quads;
    for (int i = 0; i < 20; ++i) {
        const double clock = 1.0 + 0.1 * i;
        quads.push_back({{clock, clock}, {1.25 * clock, 1.25 * clock}});
    }
    EXPECT_NEAR(ratio_of(quads, 1).ratio, 1.25, 1e-12);
}

TEST(RatioOf, IntervalCoversTheTruthAndShrinks) {
    Random random(5);
    const auto noisy = [&] { return 1.0 + 0.05 * static_cast<double>(random.uniform()); };
    const auto width = [&](int count) {
        std::vector<Quad> quads;
        for (int i = 0; i < count; ++i)
            quads.push_back({{noisy(), noisy()}, {noisy() * 1.1, noisy() * 1.1}});
        const Interval ratio = ratio_of(quads, 2);
        EXPECT_LE(ratio.low, ratio.ratio);
        EXPECT_GE(ratio.high, ratio.ratio);
        EXPECT_TRUE(ratio.holds(1.1))
            << "seed 5, " << count << " quads: " << ratio.low << " to " << ratio.high;
        return ratio.high - ratio.low;
    };
    const double few = width(10), many = width(400);
    EXPECT_LT(many, few / 2);
}

TEST(GeomeanOf, MultipliesRatiosAndAddsErrors) {
    EXPECT_EQ(geomean_of({}).ratio, 1);
    const Interval mean = geomean_of({{2, 2 / 1.1, 2 * 1.1}, {8, 8 / 1.1, 8 * 1.1}});
    EXPECT_NEAR(mean.ratio, 4, 1e-12);
    EXPECT_NEAR(mean.high, 4 * std::exp(std::log(1.1) / std::sqrt(2.0)), 1e-9);
    EXPECT_NEAR(mean.low * mean.high, 16, 1e-9);
}

TEST(BootstrapBlocks, DrawsWithTheSameSeedTheSame) {
    const auto statistic = [](const std::vector<size_t>& drawn) {
        double sum = 0;
        for (const size_t i : drawn) sum += static_cast<double>(i);
        return sum / static_cast<double>(drawn.size());
    };
    const Interval first = bootstrap_blocks(21, 1000, 3, statistic),
                   second = bootstrap_blocks(21, 1000, 3, statistic);
    EXPECT_EQ(first.low, second.low);
    EXPECT_EQ(first.high, second.high);
    EXPECT_DOUBLE_EQ(first.ratio, 10);
    // The mean of 21 draws from 0..20 has the standard deviation sqrt((21^2 - 1) / 12 / 21) = 1.32.
    EXPECT_NEAR(first.low, 10 - 1.96 * 1.32, 0.4);
    EXPECT_NEAR(first.high, 10 + 1.96 * 1.32, 0.4);
    const Interval single = bootstrap_blocks(1, 1000, 3, statistic);
    EXPECT_EQ(single.low, single.high);
}

}  // namespace
}  // namespace whet::bench
