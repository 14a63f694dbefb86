// SPDX-License-Identifier: Apache-2.0
// Tests of the budget: shares under idle cores, quotas, throttling, pressure and slow calls.
#include "runtime/budget/budget.hpp"

#include <gtest/gtest.h>

#include <string>

namespace whet::runtime {
namespace {

constexpr double kWhole = 1.0, kBusy = 0.1, kStrained = 0.02;

base::HostLimits limits(int cores, std::optional<double> quota = {}) { return {cores, quota, {}}; }

TEST(Budget, SharesFollowIdleness) {
    const base::Options options;
    Budget budget(options, limits(2));
    budget.share({0.1, 0}, 0);
    EXPECT_EQ(budget.share({1.1, 0.95}, 0), kWhole) << "one core was idle";
    EXPECT_EQ(budget.share({2.1, 1.05}, 0), kBusy) << "none was";
    EXPECT_EQ(budget.share({3.1, 1.10}, 0.9), kWhole) << "only the forge kept it busy";
}

struct LimitsCase {
    const char* name;
    base::HostLimits limits;
    double share;  ///< where a core is idle
};

class BudgetLimits : public testing::TestWithParam<LimitsCase> {};

TEST_P(BudgetLimits, DecideWhetherThereIsAnIdleCore) {
    const base::Options options;
    Budget budget(options, GetParam().limits);
    budget.share({0.1, 0}, 0);
    EXPECT_EQ(budget.share({1.1, 1.9}, 0), GetParam().share);
    // The same, when it changes while the program runs.
    Budget later(options, limits(2));
    later.share({0.1, 0}, 0);
    EXPECT_EQ(later.share({1.1, 1.9}, 0), kWhole);
    later.set_limits(GetParam().limits);
    EXPECT_EQ(later.share({2.1, 3.8}, 0), GetParam().share);
}

INSTANTIATE_TEST_SUITE_P(Table, BudgetLimits,
                         testing::Values(LimitsCase{"TwoCores", limits(2), kWhole},
                                         LimitsCase{"OneCore", limits(1), kBusy},
                                         LimitsCase{"QuotaOfOneCore", limits(2, 1.0), kBusy},
                                         LimitsCase{"QuotaOfAllCores", limits(2, 2.0), kWhole},
                                         LimitsCase{"QuotaOfMore", limits(2, 8.0), kWhole},
                                         LimitsCase{"QuotaOfNearlyAll", limits(8, 7.9), kBusy}),
                         [](const auto& info) { return std::string(info.param.name); });

struct StrainCase {
    const char* name;
    base::HostStrain before, after;  ///< a quarter of a second apart
    bool backs_off;
};

class BudgetStrain : public testing::TestWithParam<StrainCase> {};

TEST_P(BudgetStrain, BacksOff) {
    const StrainCase& one = GetParam();
    const base::Options options;
    Budget budget(options, limits(2));
    budget.observe_strain(one.before, 10);
    EXPECT_FALSE(budget.backs_off(10)) << "what was before is no news";
    budget.observe_strain(one.after, 10.25);
    EXPECT_EQ(budget.backs_off(10.25), one.backs_off);
    budget.share({10.25, 100}, 0);
    EXPECT_EQ(budget.share({10.5, 101}, 0), one.backs_off ? kStrained : kWhole);
    EXPECT_EQ(budget.share({20, 120}, 0), kWhole);
}

INSTANTIATE_TEST_SUITE_P(
    Table, BudgetStrain,
    testing::Values(StrainCase{"Nothing", {}, {}, false},
                    StrainCase{"OldTroubles", {90, 50, 50}, {90, 50, 50}, false},
                    StrainCase{"Throttled", {90, 0, 0}, {91, 0, 0}, true},
                    StrainCase{"WaitsForACore", {0, 7, 0}, {0, 7.1, 0}, true},
                    StrainCase{"HardlyWaitsForACore", {0, 7, 0}, {0, 7.01, 0}, false},
                    StrainCase{"WaitsForMemory", {0, 0, 7}, {0, 0, 7.05}, true},
                    StrainCase{"HardlyWaitsForMemory", {0, 0, 7}, {0, 0, 7.005}, false},
                    StrainCase{"AnotherGroup", {90, 7, 7}, {3, 20, 20}, false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Budget, BacksOffLongerWhereItWasNotEnough) {
    const base::Options options;
    Budget budget(options, limits(2));
    base::HostStrain strain;
    double backed_off = 0, longest = 0, since = 0;
    for (double now = 0; now < 200; now += 0.25) {
        ++strain.throttled_periods;
        const bool before = budget.backs_off(now);
        budget.observe_strain(strain, now);
        if (!before && budget.backs_off(now)) since = now;
        if (budget.backs_off(now)) longest = std::max(longest, now - since), backed_off += 0.25;
    }
    EXPECT_GT(longest, 30);
    EXPECT_GT(backed_off, 190);
    // Calm: soon as before.
    for (double now = 200; now < 240; now += 0.25) budget.observe_strain(strain, now);
    EXPECT_FALSE(budget.backs_off(240));
    ++strain.throttled_periods;
    budget.observe_strain(strain, 240.25);
    EXPECT_TRUE(budget.backs_off(242));
    EXPECT_FALSE(budget.backs_off(243));
}

struct AskedCase {
    const char* name;
    double asked, strained;
};

class BudgetAsked : public testing::TestWithParam<AskedCase> {};

TEST_P(BudgetAsked, IsKeptUntilTheApplicationSuffers) {
    base::Options options;
    options.budget_cpu = GetParam().asked;
    Budget budget(options, limits(2));
    EXPECT_EQ(budget.share({1, 1}, 0), GetParam().asked);
    budget.observe_latency(2.0, 1.0);
    EXPECT_DOUBLE_EQ(budget.share({1.5, 1}, 0), GetParam().strained);
    EXPECT_EQ(budget.share({9, 1}, 0), GetParam().asked);
    budget.observe_latency(1.2, 9.0);
    EXPECT_EQ(budget.share({9.5, 1}, 0), GetParam().asked);
}

INSTANTIATE_TEST_SUITE_P(Table, BudgetAsked,
                         testing::Values(AskedCase{"ACore", 1, 0.1}, AskedCase{"Half", 0.5, 0.05},
                                         AskedCase{"ATenth", 0.1, 0.02},
                                         AskedCase{"Hardly", 0.01, 0.01},
                                         AskedCase{"EightCores", 8, 0.8}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Budget, LimitsReachTheForge) {
    base::Options options;
    options.budget_seconds = 3;
    options.budget_trials = 10;
    Budget budget(options, limits(2));
    const auto some = budget.control({1, 1}, 1, 4, false);
    EXPECT_EQ(some.seconds_left, 2);
    EXPECT_EQ(some.trials_left, 6);
    EXPECT_FALSE(some.paused);
    EXPECT_TRUE(budget.control({2, 1}, 3.5, 4, false).paused);
    const auto no_trials = budget.control({2, 1}, 1, 12, false);
    EXPECT_EQ(no_trials.trials_left, 0);
    EXPECT_FALSE(no_trials.paused) << "plans are still lent";
    EXPECT_TRUE(budget.used_up(1, 10));
    EXPECT_TRUE(budget.used_up(3, 0));
    EXPECT_FALSE(budget.used_up(2.9, 9));
}

TEST(Budget, AutomaticMemoryIsAQuarterOfTheGroupsAtMost) {
    EXPECT_EQ(within_quarter(100, std::nullopt), 100);
    EXPECT_EQ(within_quarter(100, 1000), 100);
    EXPECT_EQ(within_quarter(100, 200), 50);
    EXPECT_EQ(within_quarter(100, 0), 0);
}

}  // namespace
}  // namespace whet::runtime
