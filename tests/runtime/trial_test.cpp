// SPDX-License-Identifier: Apache-2.0
// Tests of the rules that decide: live trials under simulated noise, background timing.
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "runtime/trial/background_timing.hpp"
#include "runtime/trial/live_trial.hpp"
#include "tests/runtime/op_helpers.hpp"

namespace whet::runtime {
namespace {

/// A site's times: log-normal noise of 10 %, now and then an interrupt, and a machine that drifts.
double noisy(double ns, int call, std::mt19937& random) {
    std::normal_distribution<double> noise(0, 0.1);
    std::uniform_real_distribution<double> chance(0, 1);
    const double drift = 1 + 0.3 * std::sin(call * 0.02);
    return ns * drift * std::exp(noise(random)) * (chance(random) < 0.02 ? 10 : 1);
}

TrialVerdict decide(double incumbent, double challenger, uint32_t seed) {
    std::mt19937 random(seed);
    LiveTrial trial;
    for (int call = 0; call < 2000; ++call) {
        const bool second = random() & 1;
        trial.add(second, noisy(second ? challenger : incumbent, call, random));
        if (const TrialVerdict verdict = trial.verdict(); verdict != TrialVerdict::undecided)
            return verdict;
    }
    return TrialVerdict::undecided;
}

TEST(LiveTrial, AlwaysDecidesAndMostlyRight) {
    int right = 0, slips = 0;
    for (uint32_t seed = 1; seed <= 100; ++seed) {
        right += decide(10000, 9000, seed) == TrialVerdict::adopt;
        slips += decide(10000, 10500, seed) == TrialVerdict::adopt;
        EXPECT_NE(decide(10000, 10000, seed), TrialVerdict::undecided) << "seed " << seed;
    }
    EXPECT_GE(right, 90);
    EXPECT_LE(slips, 10);
}

TEST(LiveTrial, WithoutCallsTheForgesWordCounts) {
    const LiveTrial trial;
    EXPECT_EQ(trial.verdict(), TrialVerdict::undecided);
    EXPECT_EQ(trial.verdict_at_end(1.05), TrialVerdict::adopt);
    EXPECT_EQ(trial.verdict_at_end(0.98), TrialVerdict::decline);
    EXPECT_EQ(trial.ratio(), 1);
}

TEST(LiveTrial, NonsenseIsNotATime) {
    LiveTrial trial;
    for (int i = 0; i < 100; ++i) trial.add(i & 1, i & 2 ? NAN : -1);
    EXPECT_EQ(trial.pairs(), 0u);
}

TEST(BackgroundTimer, TimesAPlanAgainstAnOriginal) {
    test::Product product(8, 32, 16);
    auto plan = jit::lower(product.op, jit::Schedule{}, jit::Isa::portable);
    ASSERT_TRUE(plan) << plan.error().message;
    Record record;
    record.plan = std::move(*plan);
    record.scratch_bytes = record.plan.shared_bytes + record.plan.private_bytes;
    int calls = 0;
    const auto nothing = [](const whet_op*, void* const*, void* context) {
        ++*static_cast<int*>(context);
    };
    BackgroundTimer timer;
    const auto times = timer.compare(product.op, nothing, &calls, record, 1 << 16, 1 << 24, 2e8);
    ASSERT_TRUE(times) << times.error().message;
    EXPECT_GT(calls, 0);
    EXPECT_GT(times->plan_ns, 0);
    EXPECT_LT(times->ratio, 1) << "an original that does nothing is faster";
    EXPECT_EQ(timer.compare(product.op, nothing, &calls, record, 1 << 16, 100, 2e6).error().code,
              base::Code::out_of_budget);
}

}  // namespace
}  // namespace whet::runtime
