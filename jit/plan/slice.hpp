// SPDX-License-Identifier: Apache-2.0
// What part of a call some of its tasks are, in closed form: for whoever runs only a slice of an
// operation.
#pragma once

#include <cstdint>
#include <optional>

#include "jit/plan/plan.hpp"

namespace whet::jit {

/// The share of a call's results that tasks [0, task) of the last phase compute, 0 to 1. Tasks may
/// differ in size.
double work_before(const Plan& plan, int64_t task) noexcept;

/// The part of a call's work that falls to the busiest of the operation's threads when each takes
/// as many tasks as any other or one less, 1 for one thread. Packing that a whole call does once is
/// repeated by every thread, at an estimated cost.
double busiest_share(const Plan& plan) noexcept;

/// False where a range of tasks repeats what a whole call does once (a side packed for several
/// tasks): the time of such a range then says nothing about the whole.
bool ranges_scale(const Plan& plan) noexcept;

/// A part of a plan, as a plan: some register tiles of one axis or of both.
struct PartialPlan {
    Plan plan;
    double share;  ///< of the whole plan's results
};

/// The part of a matrix product that lies at `position` (0 first, 1 last) of its lanes or rows and
/// is about `share` of it, at least one register tile; the other axis is cut too where one tile of
/// the first is still too much, but not so far that packing would weigh more than in the whole.
/// Runs on the operands, packed copies and scratch of the whole. Nothing where a part would repeat
/// packing that the whole shares, or where there is one tile. Allocates; microseconds.
std::optional<PartialPlan> part_of(const Plan& plan, double share, double position);

}  // namespace whet::jit
