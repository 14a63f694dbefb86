// SPDX-License-Identifier: Apache-2.0
// Data of verification: a small generator, exact integers, and values that strain arithmetic.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace whet::runtime::forge {

/// SplitMix64 (Steele, Lea, Flood 2014). Not thread-safe.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    float unit() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1; }  ///< [-1, 1)
    int64_t below(int64_t bound) {
        return static_cast<int64_t>(next() % static_cast<uint64_t>(bound));
    }

private:
    uint64_t state_;
};

/// |x| <= 3: sums of K < 1.8e6 products are exact in f32.
inline constexpr int kSmallInteger = 3;

template <typename T>
void fill_exact(T* values, size_t count, Random& random) {
    constexpr uint64_t kValues = 2 * kSmallInteger + 1;
    for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<int>((random.next() >> 32) * kValues >> 32);
        values[i] = static_cast<T>(value - kSmallInteger);
    }
}

inline constexpr size_t kSubnormals = 64;

/// What depends on the type: how random bits become [-1, 1), a relative difference that rounding
/// nearly hides, a subnormal number.
template <typename T>
struct Wild;
template <>
struct Wild<float> {
    static float unit(uint64_t bits) { return static_cast<float>(bits >> 40) * 0x1p-23f - 1; }
    static constexpr float kDifference = 0x1p-20f, kSubnormal = 1e-40f;
};
template <>
struct Wild<double> {
    static double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-52 - 1; }
    static constexpr double kDifference = 0x1p-49, kSubnormal = 1e-310;
};

/// Random values over a few binades; a quarter cancels its predecessor but for rounding; some -0
/// and about kSubnormals subnormals: each costs every multiply-add that meets it a microcode assist
/// (150 cycles), so that a share of them would make verification ten times as slow.
template <typename T>
void fill_wild(T* values, size_t count, Random& random, bool subnormal) {
    const size_t step = count < 32 * kSubnormals ? 32 : count / kSubnormals;
    size_t next = subnormal ? static_cast<size_t>(random.below(32)) : count;
    constexpr T kScales[] = {0x1p-4f, 0x1p-3f, 0x1p-2f, 0x1p-1f, 1, 2, 4, 8};
    for (size_t i = 0; i < count; ++i) {
        const uint64_t bits = random.next();
        const T scale = kScales[bits & 7];
        values[i] = Wild<T>::unit(bits) * scale;
        if ((bits >> 3 & 3) == 0 && i > 0) values[i] = -values[i - 1] * (1 + Wild<T>::kDifference);
        if ((bits >> 5 & 31) == 0) values[i] = -T{0};
        if (i != next) continue;
        values[i] = std::copysign(Wild<T>::kSubnormal, values[i]);
        next += step;
    }
}

/// The same bits, or both NaN.
inline uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }
template <typename T>
bool same(T a, T b) {
    return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b));
}

}  // namespace whet::runtime::forge
