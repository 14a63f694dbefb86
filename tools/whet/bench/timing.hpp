// SPDX-License-Identifier: Apache-2.0
// Side-by-side timing: quads of segments in the orders ABBA and BAAB in turn.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tools/whet/bench/statistics.hpp"

namespace whet::bench {

/// One side of a comparison: makes `calls` calls in a row.
using Side = std::function<void(int64_t calls)>;

struct Comparison {
    double a_us = 0, b_us = 0;  ///< median time of a call
    Interval ratio;             ///< b / a
    size_t quads = 0;
};

/// Compares two sides for about `seconds`, at least five quads. `prepare` runs, untimed, before
/// every segment (it warms activations); every segment makes as many calls as take about a fifth of
/// a millisecond or more. Fixed ABBA is biased by one to two per cent (whatever the first side
/// leaves behind), so the order turns from quad to quad.
Comparison compare(const Side& a, const Side& b, const std::function<void()>& prepare,
                   double seconds, uint64_t seed);

/// The median time in nanoseconds of one call in segments, over about `seconds`.
double time_alone_ns(const Side& side, const std::function<void()>& prepare, double seconds);

}  // namespace whet::bench
