// SPDX-License-Identifier: Apache-2.0
// Hashes: a fast mixing hash for tables and a keyed hash for what is loaded from disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace whet::base {

/// Mixes two words into one: the folded 128-bit product (the idea of wyhash, Wang Yi 2019).
constexpr std::uint64_t hash_mix(std::uint64_t a, std::uint64_t b) noexcept {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

/// Adds `value` to the running hash `seed`; order matters. Usable in constant expressions.
constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t value) noexcept {
    constexpr std::uint64_t kFirst = 0xa0761d6478bd642full,
                            kSecond = 0xe7037ed1a0b428dbull;  // wyhash's secret
    return hash_mix(seed ^ kFirst ^ (seed >> 31), value ^ kSecond) + seed * kSecond + 1;
}

/// Hashes text in a constant expression; equal to no other function here.
constexpr std::uint64_t hash_text(std::string_view text) noexcept {
    std::uint64_t hash = text.size();
    for (const char character : text)
        hash = hash_combine(hash, static_cast<unsigned char>(character));
    return hash;
}

/// Hashes bytes, eight at a time; the value is the same on every machine and in every process, and
/// may be stored.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0) noexcept;

/// A key of the keyed hash.
using HashKey = std::array<std::uint8_t, 16>;
/// A 128-bit digest.
using Digest = std::array<std::uint8_t, 16>;

/// SipHash-2-4 with 64 bits (Aumasson and Bernstein 2012): nobody without the key can make data
/// that fits a digest.
std::uint64_t keyed_hash64(const HashKey& key, const void* data, std::size_t bytes) noexcept;
/// SipHash-2-4 with 128 bits.
Digest keyed_hash128(const HashKey& key, const void* data, std::size_t bytes) noexcept;

}  // namespace whet::base
