// SPDX-License-Identifier: Apache-2.0
// Latencies of blocks in three states, and what they say: percentiles, gain and cost with intervals
// over rounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace whet::bench {

enum class State {
    original,  ///< every call to the original
    paused,    ///< Whet serves, nothing is tuned
    tuning,    ///< Whet serves and tunes
};
const char* name_of(State state);

/// The state of the block with this number: rounds of three, in all six orders in turn.
State state_of_block(int number);

struct Block {
    State state = State::original;
    std::vector<double> latency_us;
    int64_t trials = 0;
};

/// {"p50": {original_us, paused_us, tuning_us, gain, cost}, "p99": {...}, "tuning_block_trials":
/// [...]}. gain = original / tuning, cost = tuning / paused; intervals: bootstrap over whole
/// rounds, because the blocks of a round share the minute in which they ran. A last round without
/// all three states is left out.
nlohmann::json summarize(const std::vector<Block>& blocks);

/// The summary for people.
std::string text_of(const nlohmann::json& summary);

}  // namespace whet::bench
