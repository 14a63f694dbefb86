// SPDX-License-Identifier: Apache-2.0
// Matrix products: rows = M, lanes = N; where dst is contiguous along M instead, the two change
// places.
#include "jit/plan/lower.hpp"

namespace whet::jit {

namespace {

using base::Code;
using base::make_error;

/// The axes of the product once it is decided which one runs along the lanes.
struct Roles {
    int row_axis, lane_axis, channel_axis;
    const Read* scalar;
    const Read* vector;
};

base::Result<Roles> roles_of(const Lowering& lowering) {
    const Computation& computation = lowering.computation;
    const int m = find_axis(computation, "m"), n = find_axis(computation, "n"),
              k = find_axis(computation, "k");
    const int64_t m_stride = result_stride_along(lowering.op, computation, m);
    const int64_t n_stride = result_stride_along(lowering.op, computation, n);
    const bool n_lanes = n_stride == 1, m_lanes = m_stride == 1;
    const bool n_single = computation.axes[n].extent == 1,
               m_single = computation.axes[m].extent == 1;
    // A column vector is one row of lanes seen from the other side; an axis of extent 1 has no
    // stride to speak of.
    if ((n_lanes && !(n_single && m_lanes)) || (n_single && !m_lanes) || (m_single && n_single))
        return Roles{m, n, k, &computation.reads[0], &computation.reads[1]};
    if (m_lanes || m_single) return Roles{n, m, k, &computation.reads[1], &computation.reads[0]};
    return make_error(Code::unsupported, "dst strides %lld, %lld: expected 1 along M or N",
                      static_cast<long long>(m_stride), static_cast<long long>(n_stride));
}

base::Result<Access> access_of(const Lowering& lowering, const Read& read, int axis, int channel,
                               Source source) {
    Access access;
    access.source = source;
    access.place = static_cast<Place>(read.operand);
    access.axis_stride = stride_along(lowering.op, read, axis);
    access.channel_stride = stride_along(lowering.op, read, channel);
    access.tap_offsets = {0};
    if (source == Source::frozen && !(lowering.op.frozen >> read.operand & 1))
        return make_error(Code::invalid_argument, "operand %d is not frozen", read.operand);
    const int batch = find_axis(lowering.computation, "batch");
    if (batch >= 0) access.outer.stride[0] = stride_along(lowering.op, read, batch);
    return access;
}

/// Microkernels transpose whole vectors of rows, some channels at a time. The last vector may lie
/// across the one before.
base::Result<void> check_transposed(const Contraction& c, int64_t lanes) {
    const auto refused = [](const char* what, int64_t got, const char* expected, int64_t of) {
        return make_error(Code::unsupported,
                          "vector operand, transposed in registers: %s %lld, expected %s%lld", what,
                          static_cast<long long>(got), expected, static_cast<long long>(of));
    };
    if (c.vector.channel_stride != 1)
        return refused("stride along K", c.vector.channel_stride, "", 1);
    if (c.lanes < lanes) return refused("lanes", c.lanes, "at least ", lanes);
    if (c.channels % kTransposedSteps != 0)
        return refused("K", c.channels, "a multiple of ", kTransposedSteps);
    if (c.segment % kTransposedSteps != 0)
        return refused("a segment of", c.segment, "a multiple of ", kTransposedSteps);
    return {};
}

}  // namespace

base::Result<void> lower_matmul(Lowering& lowering) {
    if (lowering.op.kind != WHET_MATMUL)
        return make_error(Code::unsupported, "matmul: not a matrix product");
    if (lowering.schedule.fold != 1)
        return make_error(Code::invalid_argument, "fold %d: a matrix product has 1",
                          lowering.schedule.fold);
    const Computation& computation = lowering.computation;
    WHET_TRY(const Roles roles, roles_of(lowering));
    const int batch = find_axis(computation, "batch");
    if (batch >= 0) lowering.nest.outer_extent[0] = computation.axes[batch].extent;

    Contraction c;
    c.rows = computation.axes[roles.row_axis].extent;
    c.lanes = computation.axes[roles.lane_axis].extent;
    c.channels = computation.axes[roles.channel_axis].extent;
    c.segment = computation.segment;
    WHET_TRY(c.scalar, access_of(lowering, *roles.scalar, roles.row_axis, roles.channel_axis,
                                 lowering.schedule.scalar));
    WHET_TRY(c.vector, access_of(lowering, *roles.vector, roles.lane_axis, roles.channel_axis,
                                 lowering.schedule.vector));
    c.transposed_vector =
        c.vector.source == Source::in_place && c.vector.axis_stride != 1 && c.lanes > 1;
    if (c.reads_transposed() && lowering.plan.element != Element::f32)
        return make_error(Code::unsupported,
                          "vector operand, transposed in registers: offered for f32 only");
    if (c.reads_transposed()) WHET_TRY_VOID(check_transposed(c, lowering.vector_lanes()));
    c.dst_row = result_stride_along(lowering.op, computation, roles.row_axis);
    if (batch >= 0) c.dst_outer.stride[0] = result_stride_along(lowering.op, computation, batch);
    if (computation.bias_dimension >= 0) {
        const bool along_n = lowering.op.bias_axis == 1;
        c.bias_axis = (roles.lane_axis == find_axis(computation, "n")) == along_n ? BiasAxis::lane
                                                                                  : BiasAxis::row;
    }
    WHET_TRY_VOID(finish_contraction(lowering, c));
    for (const bool scalar_side : {true, false}) {
        Access& access = scalar_side ? c.scalar : c.vector;
        if (access.outer.stride[0] != 0)
            access.packed_outer.stride[0] = packed_elements(c, scalar_side);
    }
    // Iterations of the outermost block loop are tasks, but for segments: those follow each other.
    const bool lanes_first = c.order == LoopOrder::lsr || c.order == LoopOrder::lrs;
    const bool rows_first = c.order == LoopOrder::rsl || c.order == LoopOrder::rls;
    if (lanes_first)
        lowering.nest.tasks_per_outer = (c.lane_tiles(c.lanes) + c.lane_block - 1) / c.lane_block;
    if (rows_first) lowering.nest.tasks_per_outer = (c.row_tiles + c.row_block - 1) / c.row_block;
    lowering.nest.contractions.push_back(std::move(c));
    lay_out_scratch(lowering, 0, 0);
    lowering.plan.phases = {{lowering.nest.outer_extent[0] * lowering.nest.tasks_per_outer}};
    return {};
}

}  // namespace whet::jit
