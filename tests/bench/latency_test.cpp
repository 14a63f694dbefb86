// SPDX-License-Identifier: Apache-2.0
// Blocks alternate fairly between the states, and gains and costs come out as put in.
#include "tools/whet/bench/latency.hpp"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace whet::bench {
namespace {

TEST(StateOfBlock, EveryRoundHoldsEveryStateAndOrdersChange) {
    std::set<std::vector<State>> orders;
    std::map<std::pair<int, State>, int> at_position;
    for (int round = 0; round < 6; ++round) {
        std::vector<State> order;
        for (int i = 0; i < 3; ++i) {
            order.push_back(state_of_block(3 * round + i));
            ++at_position[{i, order.back()}];
        }
        EXPECT_EQ(std::set<State>(order.begin(), order.end()).size(), 3u);
        orders.insert(order);
    }
    EXPECT_EQ(orders.size(), 6u);
    for (const auto& [where, count] : at_position) EXPECT_EQ(count, 2);
    EXPECT_EQ(state_of_block(0), state_of_block(18));
}

TEST(Summarize, FindsGainAndCost) {
    std::vector<Block> blocks;
    for (int i = 0; i < 21; ++i) {
        Block block;
        block.state = state_of_block(i);
        block.trials = block.state == State::tuning ? 30 : 0;
        const double base = block.state == State::original ? 200
                            : block.state == State::paused ? 100
                                                           : 102;
        for (int request = 0; request < 101; ++request)
            block.latency_us.push_back(base * (request == 100 ? 3 : request >= 98 ? 2 : 1));
        blocks.push_back(block);
    }
    const nlohmann::json summary = summarize(blocks);
    EXPECT_DOUBLE_EQ(summary["p50"]["original_us"].get<double>(), 200);
    EXPECT_DOUBLE_EQ(summary["p50"]["tuning_us"].get<double>(), 102);
    EXPECT_NEAR(summary["p50"]["gain"]["ratio"].get<double>(), 200.0 / 102, 1e-12);
    EXPECT_NEAR(summary["p50"]["cost"]["high"].get<double>(), 1.02, 1e-12);
    EXPECT_DOUBLE_EQ(summary["p99"]["paused_us"].get<double>(), 200);
    EXPECT_EQ(summary["tuning_block_trials"].size(), 7u);
    EXPECT_NE(text_of(summary).find("p99"), std::string::npos);
}

}  // namespace
}  // namespace whet::bench
