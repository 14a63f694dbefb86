// SPDX-License-Identifier: Apache-2.0
// The analytical model: time and features of a lowered plan in closed form.
#pragma once

#include <span>

#include "jit/plan/plan.hpp"
#include "jit/sketch/space.hpp"

namespace whet::jit {

/// What a plan does, counted: cycles of arithmetic, of copies and of calls; bytes by where they
/// come from.
struct PlanCost {
    double arithmetic_cycles = 0;  ///< in microkernels, operands in the first-level cache
    double overhead_cycles = 0;    ///< calls, tile starts and stores
    double copy_cycles = 0;        ///< packing, images, unpacking
    double l2_bytes = 0;           ///< read through the second-level cache
    double l3_bytes = 0;           ///< read from beyond it
    double memory_bytes = 0;       ///< cold weights
    double ahead_bytes = 0;        ///< of l3_bytes, those that are prefetched a panel ahead
    bool ahead = false;            ///< cold weights are prefetched a panel ahead
    double useful_share = 1;       ///< useful multiply-adds over executed ones
    double ns(const MachineModel& machine) const;
};

/// Counts a plan. Microseconds.
PlanCost cost_of(const Plan& plan, const MachineModel& machine);

inline constexpr int kFeatureCount = 24;
/// Features for cost models: logarithms of the counts, the schedule's parameters, the operation's
/// extents.
void features_of(const Plan& plan, const MachineModel& machine, std::span<float> out);

}  // namespace whet::jit
