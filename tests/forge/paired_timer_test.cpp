// SPDX-License-Identifier: Apache-2.0
// Tests of paired timing with scripted samples.
#include "runtime/forge/paired_timer.hpp"

#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace whet::runtime::forge {
namespace {

TEST(EstimateRatio, MedianAndSignTestInterval) {
    EXPECT_EQ(estimate_ratio({}).pairs, 0);
    std::vector<double> logs;
    for (int i = 1; i <= 5; ++i) logs.push_back(std::log(i));
    RatioEstimate five = estimate_ratio(logs);
    EXPECT_NEAR(five.ratio, 3, 1e-12);
    EXPECT_EQ(five.low, 0);  // five pairs cannot give 95 %
    EXPECT_TRUE(std::isinf(five.high));
    for (int i = 6; i <= 20; ++i) logs.push_back(std::log(i));
    const RatioEstimate twenty = estimate_ratio(logs);
    EXPECT_NEAR(twenty.low, 6, 1e-9);  // the sixth of twenty: the table of the sign test
    EXPECT_NEAR(twenty.high, 15, 1e-9);
}

TEST(EstimateRatio, IntervalHoldsTheTruthAboutAsOftenAsItSays) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> noise(0.1, 0.3);
    int held = 0;
    constexpr int kRounds = 1000;
    for (int i = 0; i < kRounds; ++i) {
        std::vector<double> logs(24);
        for (double& value : logs) value = noise(random);
        const RatioEstimate estimate = estimate_ratio(logs);
        held += estimate.low <= std::exp(0.1) && estimate.high >= std::exp(0.1);
    }
    EXPECT_GE(held, kRounds * 0.94);
}

struct ScriptedCase {
    const char* name;
    double a_ns, b_ns;
    StoppingRule::Decision decision;
    int most_quads;
};

class RunPaired : public testing::TestWithParam<ScriptedCase> {};

TEST_P(RunPaired, DecidesByTheRule) {
    const ScriptedCase& c = GetParam();
    std::mt19937_64 random(7);
    std::normal_distribution<double> noise(0, 0.005);
    const Sample a = [&] { return c.a_ns * std::exp(noise(random)); };
    const Sample b = [&] { return c.b_ns * std::exp(noise(random)); };
    const PairedResult result = run_paired(a, b, 12, false);
    EXPECT_EQ(result.decision, c.decision);
    EXPECT_LE(result.quads, c.most_quads);
    EXPECT_NEAR(result.estimate.ratio, c.b_ns / c.a_ns, 0.02 * c.b_ns / c.a_ns);
}

INSTANTIATE_TEST_SUITE_P(
    Scripts, RunPaired,
    testing::Values(ScriptedCase{"twice_as_slow", 200, 100, StoppingRule::Decision::drop, 1},
                    ScriptedCase{"ten_percent_slower", 110, 100, StoppingRule::Decision::drop, 2},
                    ScriptedCase{"equal", 100, 100, StoppingRule::Decision::drop, 12},
                    ScriptedCase{"ten_percent_faster", 100, 110, StoppingRule::Decision::win, 4}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RunPaired, OrderAlternatesSoThatDriftCancels) {
    double clock = 100;
    std::string order;
    const Sample a = [&] {
        order += 'a';
        return clock *= 1.01;
    };
    const Sample b = [&] {
        order += 'b';
        return clock *= 1.01;
    };
    // A sample that another thread interrupted is taken again: look at a run without any.
    PairedResult result;
    for (int attempt = 0; attempt < 10'000 && order.size() != 16; ++attempt) {
        clock = 100;
        order.clear();
        result = run_paired(a, b, 4, true);
    }
    EXPECT_EQ(order, "abbabaababbabaab");
    EXPECT_NEAR(result.estimate.ratio, 1, 1e-9);
}

}  // namespace
}  // namespace whet::runtime::forge
