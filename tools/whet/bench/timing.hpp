// SPDX-License-Identifier: Apache-2.0
// Side-by-side timing: quads of segments in the orders ABBA and BAAB in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/whet/bench/statistics.hpp"

namespace whet::bench {

constexpr int kLayouts = 4;

/// One side of a comparison: makes `calls` calls in a row.
using Side = std::function<void(int64_t calls)>;

struct Comparison {
    double a_us = 0, b_us = 0;  ///< median time of a call
    Interval ratio;             ///< b / a
    size_t quads = 0;
};

/// Puts the operands of both sides where the layout of that number (0 to kLayouts - 1) has them.
using LayOut = std::function<void(int layout)>;

/// Compares two sides for about `seconds`, at least five quads. `prepare` runs, untimed, before
/// every segment (it warms activations); every segment makes as many calls as take about a fifth of
/// a millisecond or more. Fixed ABBA is biased by one to two per cent (whatever the first side
/// leaves behind), so the order turns from quad to quad. The layout turns from two quads to the
/// next two, and is the same for both sides: where operands lie within their pages decides up to a
/// third of some operations' time.
Comparison compare(const Side& a, const Side& b, const std::function<void()>& prepare,
                   double seconds, uint64_t seed, const LayOut& lay_out = {});

/// The median time in nanoseconds of one call in segments, over about `seconds`.
double time_alone_ns(const Side& side, const std::function<void()>& prepare, double seconds);

}  // namespace whet::bench
