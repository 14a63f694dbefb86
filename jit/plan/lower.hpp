// SPDX-License-Identifier: Apache-2.0
// Inside lowering: what the per-structure files share.
#pragma once

#include "base/status.hpp"
#include "jit/op/computation.hpp"
#include "jit/plan/nest.hpp"
#include "jit/plan/plan.hpp"

namespace whet::jit {

/// A plan under construction; each lower_* fills nest and kernels.
struct Lowering {
    const whet_op& op;
    const Computation& computation;
    const Schedule& schedule;
    Plan& plan;
    Nest& nest;

    /// Lanes of one vector.
    int vector_lanes() const { return lanes_of(plan.isa, plan.element); }
};

base::Result<void> lower_matmul(Lowering& lowering);
base::Result<void> lower_conv(Lowering& lowering);  // pixels, channels
base::Result<void> lower_depthwise(Lowering& lowering);
base::Result<void> lower_phases(Lowering& lowering);
base::Result<void> lower_softmax(Lowering& lowering);

/// Cuts `rows` into row tiles of at most schedule.rows, near-equal ("equalised remnants"): sets
/// rows, tiles, widths.
void set_row_tiles(Contraction& contraction, int64_t rows, int most);

/// Fills blocks, segments, order and the microkernels of a contraction whose extents and accesses
/// are set. `longest_lanes`: the lanes of the longest strip. unsupported when no microkernel can
/// serve it.
base::Result<void> finish_contraction(Lowering& lowering, Contraction& contraction);

/// Index of `spec` in plan.kernels, appended if new; fails where spec.check() fails.
base::Result<int> kernel_index(Plan& plan, const MicrokernelSpec& spec);

/// Elements of a whole packed copy of one side.
int64_t packed_elements(const Contraction& contraction, bool scalar_side);

/// Lays image, product and panels out in private scratch and sizes it.
void lay_out_scratch(Lowering& lowering, int64_t image_elements, int64_t product_elements);

/// Sets plan.frozen for every frozen access: bytes and an id of everything that decides the copy's
/// content.
void set_frozen_layouts(Lowering& lowering);

}  // namespace whet::jit
