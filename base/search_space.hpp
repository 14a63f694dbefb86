// SPDX-License-Identifier: Apache-2.0
// The space of schedules as a policy sees it: sketches, knobs with ordered choices, moves, costs;
// nothing of IR or time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whet::base {

/// One point: the chosen index of every knob of a sketch.
using Point = std::vector<int16_t>;

/// What one move does: knob `knob` changes by `delta` choices. delta = 0 is "do nothing".
struct Move {
    int knob = 0;
    int delta = 0;
};

/// A finite space over which a policy proposes points. Implementations are immutable: every method
/// may be called from any thread. Costs are microseconds a call at most; nothing is compiled or
/// run.
class SearchSpace {
public:
    virtual ~SearchSpace() = default;

    virtual int sketch_count() const = 0;
    virtual std::string sketch_name(int sketch) const = 0;
    virtual int knob_count(int sketch) const = 0;
    virtual std::string knob_name(int sketch, int knob) const = 0;
    virtual int choice_count(int sketch, int knob) const = 0;

    /// True when the point is a legal schedule; otherwise the reason, if asked for.
    virtual bool legal(int sketch, const Point& point, std::string* reason) const = 0;
    /// Applies a move if its result is legal; false (and no change) where it is not: the policy's
    /// action mask.
    virtual bool step(int sketch, Point& point, Move move) const = 0;

    /// The analytical estimate of the schedule's time, nanoseconds, in closed form.
    virtual double estimate_ns(int sketch, const Point& point) const = 0;
    /// Features of the schedule in closed form, a fixed number for all points (feature_count()).
    virtual int feature_count() const = 0;
    virtual void features(int sketch, const Point& point, std::span<float> out) const = 0;
};

}  // namespace whet::base
