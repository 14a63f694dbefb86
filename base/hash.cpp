// SPDX-License-Identifier: Apache-2.0
// Hashes over bytes.
#include "base/hash.hpp"

#include <bit>
#include <cstring>

namespace whet::base {
namespace {

std::uint64_t load64(const std::uint8_t* bytes) {
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof(word));
    return word;
}

/// The last 0 to 7 bytes as one word.
std::uint64_t load_tail(const std::uint8_t* bytes, std::size_t count) {
    std::uint64_t word = 0;
    if (count > 0) std::memcpy(&word, bytes, count);  // empty data may be a null pointer
    return word;
}

struct SipState {
    std::uint64_t v0, v1, v2, v3;

    void round() {
        v0 += v1;
        v1 = std::rotl(v1, 13);
        v1 ^= v0;
        v0 = std::rotl(v0, 32);
        v2 += v3;
        v3 = std::rotl(v3, 16);
        v3 ^= v2;
        v0 += v3;
        v3 = std::rotl(v3, 21);
        v3 ^= v0;
        v2 += v1;
        v1 = std::rotl(v1, 17);
        v1 ^= v2;
        v2 = std::rotl(v2, 32);
    }
    void rounds(int count) {
        for (int i = 0; i < count; ++i) round();
    }
    std::uint64_t fold() const { return v0 ^ v1 ^ v2 ^ v3; }
};

/// Absorbs key and data with two rounds a word; the finalisation is the caller's.
SipState absorb(const HashKey& key, const std::uint8_t* bytes, std::size_t count, bool wide) {
    const std::uint64_t k0 = load64(key.data()), k1 = load64(key.data() + 8);
    SipState state{k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
                   k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
    if (wide) state.v1 ^= 0xee;
    const std::size_t whole = count / 8 * 8;
    for (std::size_t i = 0; i < whole; i += 8) {
        const std::uint64_t word = load64(bytes + i);
        state.v3 ^= word;
        state.rounds(2);
        state.v0 ^= word;
    }
    const std::uint64_t last =
        (static_cast<std::uint64_t>(count) << 56) | load_tail(bytes + whole, count - whole);
    state.v3 ^= last;
    state.rounds(2);
    state.v0 ^= last;
    return state;
}

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) noexcept {
    const auto* cursor = static_cast<const std::uint8_t*>(data);
    std::uint64_t hash = hash_combine(seed, bytes);
    std::size_t left = bytes;
    for (; left >= 8; left -= 8, cursor += 8) hash = hash_combine(hash, load64(cursor));
    if (left > 0) hash = hash_combine(hash, load_tail(cursor, left));
    constexpr std::uint64_t kGoldenRatio = 0x9e3779b97f4a7c15ull;  // spreads the last word's bits
    return hash_mix(hash, kGoldenRatio) ^ hash;
}

std::uint64_t keyed_hash64(const HashKey& key, const void* data, std::size_t bytes) noexcept {
    SipState state = absorb(key, static_cast<const std::uint8_t*>(data), bytes, false);
    state.v2 ^= 0xff;
    state.rounds(4);
    return state.fold();
}

Digest keyed_hash128(const HashKey& key, const void* data, std::size_t bytes) noexcept {
    SipState state = absorb(key, static_cast<const std::uint8_t*>(data), bytes, true);
    state.v2 ^= 0xee;
    state.rounds(4);
    const std::uint64_t low = state.fold();
    state.v1 ^= 0xdd;
    state.rounds(4);
    const std::uint64_t high = state.fold();
    Digest digest;
    std::memcpy(digest.data(), &low, 8);
    std::memcpy(digest.data() + 8, &high, 8);
    return digest;
}

}  // namespace whet::base
