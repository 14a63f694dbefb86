// SPDX-License-Identifier: Apache-2.0
// Tests of SW-UCB on scripted rewards.
#include "policy/bandit/sliding_window_ucb.hpp"

#include <gtest/gtest.h>

namespace whet::policy {
namespace {

TEST(SlidingWindowUcb, PlaysFreshArmsByPriorThenByNumber) {
    SlidingWindowUcb bandit;
    EXPECT_EQ(bandit.choose({}, {}), -1);
    bandit.resize(3);
    EXPECT_EQ(bandit.choose({}, {}), 0);
    EXPECT_EQ(bandit.choose({}, {1.0, 3.0, 2.0}), 1);
    bandit.update(1, 0.5);
    EXPECT_EQ(bandit.choose({}, {1.0, 3.0, 2.0}), 2);
    EXPECT_EQ(bandit.choose({false, true, false}, {}), 1);
    EXPECT_EQ(bandit.choose({false, false, false}, {}), -1);
}

TEST(SlidingWindowUcb, ConcentratesOnTheBestArmWhateverTheUnit) {
    for (const double unit : {1.0, 1e-9, 1e9}) {
        SlidingWindowUcb bandit;
        bandit.resize(4);
        const double mean[] = {0.2, 0.5, 1.0, 0.3};
        int plays[4] = {};
        for (int t = 0; t < 1000; ++t) {
            const int arm = bandit.choose({}, {});
            ++plays[arm];
            bandit.update(arm, unit * mean[arm]);
        }
        EXPECT_GT(plays[2], 700) << "unit " << unit;
        for (const int count : plays) EXPECT_GT(count, 2);
    }
}

TEST(SlidingWindowUcb, ForgetsWhatLeftTheWindow) {
    SlidingWindowUcb bandit(32);
    bandit.resize(2);
    for (int t = 0; t < 200; ++t) {
        const int arm = bandit.choose({}, {});
        bandit.update(arm, arm == 0 ? 1.0 : 0.1);
    }
    int late = 0;
    for (int t = 0; t < 200; ++t) {
        const int arm = bandit.choose({}, {});
        bandit.update(arm, arm == 0 ? 0.1 : 1.0);
        if (t >= 100) late += arm == 1;
    }
    EXPECT_GT(late, 75);
    EXPECT_LE(bandit.plays_in_window(0) + bandit.plays_in_window(1), 32u);
}

}  // namespace
}  // namespace whet::policy
