// SPDX-License-Identifier: Apache-2.0
// Deterministic mutation of good inputs: the seed is printed, a failing input too.
// WHET_FUZZ_SEED and WHET_FUZZ_CASES change what is run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fuzz/targets.hpp"

namespace whet::fuzz {
namespace {

constexpr size_t kMostBytes = 4096;
constexpr size_t kKept = 64;  // inputs to mutate further

uint64_t setting(const char* name, uint64_t otherwise) {
    const char* const value = std::getenv(name);
    return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

using Bytes = std::vector<uint8_t>;

class Mutator {
public:
    explicit Mutator(uint64_t seed) : random_(seed) {}

    Bytes mutate(const std::vector<Bytes>& inputs) {
        Bytes bytes = inputs[below(inputs.size())];
        for (uint64_t left = 1 + below(4); left > 0; --left) step(bytes, inputs);
        bytes.resize(std::min(bytes.size(), kMostBytes));
        return bytes;
    }
    uint64_t below(uint64_t bound) { return random_() % bound; }

private:
    void step(Bytes& bytes, const std::vector<Bytes>& inputs) {
        const size_t at = below(bytes.size() + 1);
        const auto place = bytes.begin() + static_cast<ptrdiff_t>(at);
        switch (below(8)) {
            case 0:
                if (at < bytes.size()) bytes[at] ^= static_cast<uint8_t>(1u << below(8));
                return;
            case 1:
                if (at < bytes.size()) bytes[at] = static_cast<uint8_t>(random_());
                return;
            case 2: bytes.resize(at); return;
            case 3:
                bytes.erase(place,
                            place + static_cast<ptrdiff_t>(std::min(below(9), bytes.size() - at)));
                return;
            case 4: {
                static const char* const kWords[] = {
                    "0",      "1",      "-1",      "=",   "x",
                    " ",      "65535",  "65536",   "255", "99999999999999999999",
                    "packed", "frozen", "in_place"};
                const std::string word = kWords[below(std::size(kWords))];
                bytes.insert(place, word.begin(), word.end());
                return;
            }
            case 5: {  // a digit becomes another
                const auto digit = std::find_if(place, bytes.end(),
                                                [](uint8_t c) { return c >= '0' && c <= '9'; });
                if (digit != bytes.end()) *digit = static_cast<uint8_t>('0' + below(10));
                return;
            }
            case 6: {  // a number that lies about lengths
                static constexpr uint64_t kLengths[] = {
                    0, 1, ~uint64_t{0}, uint64_t{1} << 32, 1u << 20, uint64_t{1} << 63};
                const uint64_t length = kLengths[below(std::size(kLengths))];
                for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i)
                    bytes[at + i] = static_cast<uint8_t>(length >> 8 * i);
                return;
            }
            default: {  // the tail of another input
                const Bytes& other = inputs[below(inputs.size())];
                bytes.resize(at);
                const size_t from = std::min(at, other.size());
                bytes.insert(bytes.end(), other.begin() + static_cast<ptrdiff_t>(from),
                             other.end());
            }
        }
    }
    std::mt19937_64 random_;
};

std::string hex_of(const Bytes& bytes) {
    std::string text;
    char pair[3];
    for (const uint8_t byte : bytes) {
        std::snprintf(pair, sizeof pair, "%02x", byte);
        text += pair;
    }
    return text;
}

class Fuzz : public testing::TestWithParam<Target> {};

TEST_P(Fuzz, HoldsItsPropertiesOnMutatedInputs) {
    const uint64_t seed = setting("WHET_FUZZ_SEED", 20261130),
                   cases = setting("WHET_FUZZ_CASES", 50'000);
    std::printf("WHET_FUZZ_SEED=%llu WHET_FUZZ_CASES=%llu\n", static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(cases));
    std::vector<Bytes> inputs = GetParam().seeds();
    for (const Bytes& input : inputs) {
        const Outcome outcome = GetParam().run(input.data(), input.size());
        ASSERT_TRUE(outcome.accepted && outcome.broken.empty())
            << outcome.broken << " " << hex_of(input);
    }
    const size_t seeds = inputs.size();
    uint64_t accepted = 0;
    Mutator mutator(seed);
    for (uint64_t i = 0; i < cases; ++i) {
        // In a block of exactly its size, so that a sanitizer sees the byte behind it.
        Bytes input = mutator.mutate(inputs);
        input.shrink_to_fit();
        const Outcome outcome = GetParam().run(input.data(), input.size());
        ASSERT_EQ(outcome.broken, "") << "case " << i << " input " << hex_of(input);
        if (!outcome.accepted) continue;
        ++accepted;
        // Well-formed ones are mutated further, so that changes add up.
        if (inputs.size() < seeds + kKept)
            inputs.push_back(std::move(input));
        else
            inputs[seeds + mutator.below(kKept)] = std::move(input);
    }
    std::printf("%llu accepted\n", static_cast<unsigned long long>(accepted));
    EXPECT_GT(accepted, cases / 1000);
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace whet::fuzz
