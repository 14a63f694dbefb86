// SPDX-License-Identifier: Apache-2.0
// What is fuzzed: every text and frame that comes from a file, a socket or a user.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whet::fuzz {

struct Outcome {
    bool accepted = false;  ///< the input was well formed
    std::string broken;     ///< empty: all properties hold; else what does not
};

/// Takes any bytes.
using Run = Outcome (*)(const uint8_t* data, size_t size);

/// A function under test and inputs to begin with.
struct Target {
    const char* name;
    Run run;
    std::vector<std::vector<uint8_t>> (*seeds)();
};

/// All of them, in a fixed order.
std::span<const Target> targets();

}  // namespace whet::fuzz
