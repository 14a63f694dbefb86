// SPDX-License-Identifier: Apache-2.0
// Tests of the hashes: published vectors, stability, spread.
#include "base/hash.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

namespace whet::base {
namespace {

constexpr HashKey kKey = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

std::vector<std::uint8_t> counting(size_t count) {
    std::vector<std::uint8_t> bytes(count);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    return bytes;
}

TEST(KeyedHash, GivesThePublishedVectors) {
    // Aumasson and Bernstein 2012, appendix A, and the reference implementation's first 128-bit
    // vector.
    EXPECT_EQ(keyed_hash64(kKey, counting(15).data(), 15), 0xa129ca6149be45e5ull);
    EXPECT_EQ(keyed_hash64(kKey, nullptr, 0), 0x726fdb47dd0e0e31ull);
    const Digest expected = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                             0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    EXPECT_EQ(keyed_hash128(kKey, nullptr, 0), expected);
}

TEST(KeyedHash, DependsOnKeyAndEveryByte) {
    auto data = counting(64);
    const Digest before = keyed_hash128(kKey, data.data(), data.size());
    for (size_t i = 0; i < data.size(); ++i) {
        data[i] ^= 1;
        EXPECT_NE(keyed_hash128(kKey, data.data(), data.size()), before) << i;
        data[i] ^= 1;
    }
    HashKey other = kKey;
    other[15] ^= 128;
    EXPECT_NE(keyed_hash128(other, data.data(), data.size()), before);
}

TEST(HashBytes, TellsLengthsContentsAndSeedsApart) {
    std::set<std::uint64_t> seen;
    const std::vector<std::uint8_t> zeros(64, 0);
    for (size_t length = 0; length <= 64; ++length) {
        for (std::uint64_t seed = 0; seed < 4; ++seed) {
            EXPECT_TRUE(seen.insert(hash_bytes(zeros.data(), length, seed)).second) << length;
        }
    }
}

TEST(HashBytes, IsStable) {
    // Stored in files: a change of these values is a change of the format.
    EXPECT_EQ(hash_bytes("", 0), hash_bytes(nullptr, 0));
    EXPECT_EQ(hash_bytes("whet", 4), 0x5bbe42777038dacull);
    static_assert(hash_text("whet") == 0xa2921cbf4a10bfd1ull);
}

TEST(HashBytes, OneBitChangesAboutHalfOfTheBits) {
    int changed = 0, trials = 0;
    for (std::uint64_t i = 0; i < 256; ++i) {
        for (int position = 0; position < 64; ++position, ++trials) {
            const std::uint64_t flipped = i ^ (std::uint64_t{1} << position);
            changed += std::popcount(hash_bytes(&i, 8) ^ hash_bytes(&flipped, 8));
        }
    }
    EXPECT_NEAR(static_cast<double>(changed) / trials, 32.0, 0.5);
}

}  // namespace
}  // namespace whet::base
