// SPDX-License-Identifier: Apache-2.0
// Softmax over the last axis of a matrix.
#include "jit/op/computation.hpp"

namespace whet::jit {

base::Result<Computation> softmax_computation(const whet_op& op) {
    const whet_view& dst = op.operands[WHET_DST];
    Computation computation;
    computation.combiner = Combiner::softmax;
    computation.axes = {{"row", AxisKind::spatial, dst.extents[0]},
                        {"column", AxisKind::spatial, dst.extents[1]}};
    AffineIndex row, column;
    row.coefficients = {1, 0};
    column.coefficients = {0, 1};
    computation.reads = {{WHET_A, {row, column}}};
    computation.result = {row, column};
    computation.symbolic_axis = 0;
    return computation;
}

}  // namespace whet::jit
