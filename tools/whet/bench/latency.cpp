// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/latency.hpp"

#include <cstdio>

#include "tools/whet/bench/result.hpp"
#include "tools/whet/bench/statistics.hpp"

namespace whet::bench {
namespace {

constexpr int kStates = 3;
constexpr int kResamples = 1000;
constexpr State kOrders[6][kStates] = {
    {State::original, State::paused, State::tuning},
    {State::tuning, State::original, State::paused},
    {State::paused, State::tuning, State::original},
    {State::tuning, State::paused, State::original},
    {State::original, State::tuning, State::paused},
    {State::paused, State::original, State::tuning},
};

/// The percentile of a state's latencies over the drawn rounds.
double percentile(const std::vector<Block>& blocks, const std::vector<size_t>& rounds, State state,
                  double share) {
    std::vector<double> pooled;
    for (const size_t round : rounds)
        for (size_t i = round * kStates; i < (round + 1) * kStates; ++i)
            if (blocks[i].state == state)
                pooled.insert(pooled.end(), blocks[i].latency_us.begin(),
                              blocks[i].latency_us.end());
    return quantile_of(pooled, share);
}

nlohmann::json summary_at(const std::vector<Block>& blocks, double share) {
    const size_t rounds = blocks.size() / kStates;
    std::vector<size_t> every(rounds);
    for (size_t i = 0; i < rounds; ++i) every[i] = i;
    const auto ratio = [&](State above, State below) {
        return to_json(
            bootstrap_blocks(rounds, kResamples, 21, [&](const std::vector<size_t>& drawn) {
                const double bottom = percentile(blocks, drawn, below, share);
                return bottom > 0 ? percentile(blocks, drawn, above, share) / bottom : 1.0;
            }));
    };
    return {{"original_us", percentile(blocks, every, State::original, share)},
            {"paused_us", percentile(blocks, every, State::paused, share)},
            {"tuning_us", percentile(blocks, every, State::tuning, share)},
            {"gain", ratio(State::original, State::tuning)},
            {"cost", ratio(State::tuning, State::paused)}};
}

}  // namespace

const char* name_of(State state) {
    switch (state) {
        case State::original: return "original";
        case State::paused: return "paused";
        case State::tuning: return "tuning";
    }
    return "";
}

State state_of_block(int number) { return kOrders[number / kStates % 6][number % kStates]; }

nlohmann::json summarize(const std::vector<Block>& blocks) {
    nlohmann::json trials = nlohmann::json::array();
    for (const Block& block : blocks)
        if (block.state == State::tuning) trials.push_back(block.trials);
    return {{"p50", summary_at(blocks, 0.50)},
            {"p99", summary_at(blocks, 0.99)},
            {"tuning_block_trials", trials}};
}

std::string text_of(const nlohmann::json& summary) {
    std::string text =
        "      original us   paused us   tuning us   gain [low, high]         cost [low, high]\n";
    for (const char* name : {"p50", "p99"}) {
        const nlohmann::json& one = summary.at(name);
        const nlohmann::json &gain = one.at("gain"), &cost = one.at("cost");
        char line[256];
        std::snprintf(line, sizeof line,
                      "%-4s %12.1f %11.1f %11.1f   %.3f [%.3f, %.3f]   %.3f [%.3f, %.3f]\n", name,
                      one.at("original_us").get<double>(), one.at("paused_us").get<double>(),
                      one.at("tuning_us").get<double>(), gain.at("ratio").get<double>(),
                      gain.at("low").get<double>(), gain.at("high").get<double>(),
                      cost.at("ratio").get<double>(), cost.at("low").get<double>(),
                      cost.at("high").get<double>());
        text += line;
    }
    if (summary.contains("trials"))
        text += "trials " + summary.at("trials").dump() + ", requests " +
                summary.at("requests").dump() + "\n";
    return text;
}

}  // namespace whet::bench
