// SPDX-License-Identifier: Apache-2.0
// The matrix product, batched or not: dst[b, m, n] = sum over k of a[b, m, k] * b[b, k, n].
#include "jit/op/computation.hpp"

namespace whet::jit {

namespace {

AffineIndex along(size_t axes, int axis) {
    AffineIndex index;
    index.coefficients.assign(axes, 0);
    index.coefficients[axis] = 1;
    return index;
}

}  // namespace

base::Result<Computation> matmul_computation(const whet_op& op) {
    const whet_view& dst = op.operands[WHET_DST];
    const int rank = dst.rank;
    if (rank != 2 && rank != 3)
        return base::make_error(base::Code::unsupported, "a product of rank %d: expected 2 or 3",
                                rank);
    Computation computation;
    const bool batched = rank == 3;
    if (batched) computation.axes.push_back({"batch", AxisKind::spatial, dst.extents[0]});
    computation.axes.push_back({"m", AxisKind::spatial, dst.extents[rank - 2]});
    computation.axes.push_back({"n", AxisKind::spatial, dst.extents[rank - 1]});
    computation.axes.push_back({"k", AxisKind::channel, op.operands[WHET_A].extents[rank - 1]});
    const size_t count = computation.axes.size();
    const int m = batched ? 1 : 0;
    const int n = m + 1, k = m + 2;
    computation.reads = {{WHET_A, {along(count, m), along(count, k)}},
                         {WHET_B, {along(count, k), along(count, n)}}};
    computation.result = {along(count, m), along(count, n)};
    if (batched) {
        for (Read& read : computation.reads)
            read.dimensions.insert(read.dimensions.begin(), along(count, 0));
        computation.result.insert(computation.result.begin(), along(count, 0));
    }
    computation.segment = kSegmentMatmul;
    if (op.operand_count > WHET_BIAS)
        computation.bias_dimension = rank - 2 + static_cast<int>(op.bias_axis);
    computation.symbolic_axis = m;
    return computation;
}

}  // namespace whet::jit
