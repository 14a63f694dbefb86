// SPDX-License-Identifier: Apache-2.0
// Convolution and transposed convolution over 1 to 3 spatial axes; the group is an axis, so
// depthwise is the same text.
#include "jit/op/computation.hpp"

namespace whet::jit {

namespace {

constexpr const char* kOut[] = {"x", "y", "z"};
constexpr const char* kTap[] = {"kx", "ky", "kz"};

/// Axis numbers of a convolution's computation.
struct ConvAxes {
    int rank;
    static int batch() { return 0; }
    static int group() { return 1; }
    static int out_channel() { return 2; }
    static int out(int d) { return 3 + d; }
    int tap(int d) const { return 3 + rank + d; }
    int channel() const { return 3 + 2 * rank; }
    size_t count() const { return 4 + 2 * static_cast<size_t>(rank); }

    AffineIndex none() const {
        AffineIndex index;
        index.coefficients.assign(count(), 0);
        return index;
    }
    AffineIndex along(int axis) const {
        AffineIndex index = none();
        index.coefficients[axis] = 1;
        return index;
    }
    /// group * per_group + inner
    AffineIndex grouped(int inner, int64_t per_group) const {
        AffineIndex index = along(inner);
        index.coefficients[group()] = per_group;
        return index;
    }
};

/// Axes, result, segment and bias: what both directions share.
Computation conv_axes(const whet_op& op, const ConvAxes& axes, int64_t out_per_group,
                      int64_t in_per_group) {
    Computation computation;
    const whet_view& dst = op.operands[WHET_DST];
    const whet_view& weights = op.operands[WHET_B];
    computation.axes = {{"batch", AxisKind::spatial, dst.extents[0]},
                        {"group", AxisKind::spatial, op.groups},
                        {"co", AxisKind::spatial, out_per_group}};
    for (int d = 0; d < axes.rank; ++d)
        computation.axes.push_back(
            {kOut[axes.rank - 1 - d], AxisKind::spatial, dst.extents[2 + d]});
    for (int d = 0; d < axes.rank; ++d)
        computation.axes.push_back(
            {kTap[axes.rank - 1 - d], AxisKind::tap, weights.extents[2 + d]});
    computation.axes.push_back({"ci", AxisKind::channel, in_per_group});
    computation.result = {axes.along(ConvAxes::batch()),
                          axes.grouped(ConvAxes::out_channel(), out_per_group)};
    for (int d = 0; d < axes.rank; ++d) computation.result.push_back(axes.along(ConvAxes::out(d)));
    computation.reads = {
        {WHET_A, {axes.along(ConvAxes::batch()), axes.grouped(axes.channel(), in_per_group)}}};
    computation.segment = channels_per_segment(extent_of(computation, AxisKind::tap));
    if (op.operand_count > WHET_BIAS) computation.bias_dimension = 1;
    computation.symbolic_axis = ConvAxes::batch();
    return computation;
}

}  // namespace

base::Result<Computation> conv_computation(const whet_op& op) {
    const ConvAxes axes{op.spatial_rank};
    const whet_view& weights = op.operands[WHET_B];
    const int64_t out_per_group = weights.extents[0] / op.groups;
    Computation computation = conv_axes(op, axes, out_per_group, weights.extents[1]);
    Read weight{WHET_B,
                {axes.grouped(ConvAxes::out_channel(), out_per_group), axes.along(axes.channel())}};
    for (int d = 0; d < axes.rank; ++d) {
        AffineIndex position = axes.none();
        position.offset = -op.padding[d];
        position.coefficients[ConvAxes::out(d)] = op.stride[d];
        position.coefficients[axes.tap(d)] = op.dilation[d];
        computation.reads[0].dimensions.push_back(position);
        weight.dimensions.push_back(axes.along(axes.tap(d)));
    }
    computation.reads.push_back(weight);
    return computation;
}

base::Result<Computation> conv_transpose_computation(const whet_op& op) {
    const ConvAxes axes{op.spatial_rank};
    const whet_view& weights = op.operands[WHET_B];
    const int64_t in_per_group = weights.extents[0] / op.groups;
    Computation computation = conv_axes(op, axes, weights.extents[1], in_per_group);
    Read weight{WHET_B,
                {axes.grouped(axes.channel(), in_per_group), axes.along(ConvAxes::out_channel())}};
    for (int d = 0; d < axes.rank; ++d) {
        AffineIndex position = axes.none();
        position.offset = op.padding[d];
        position.divisor = op.stride[d];
        position.coefficients[ConvAxes::out(d)] = 1;
        position.coefficients[axes.tap(d)] = -op.dilation[d];
        computation.reads[0].dimensions.push_back(position);
        weight.dimensions.push_back(axes.along(axes.tap(d)));
    }
    computation.reads.push_back(weight);
    return computation;
}

}  // namespace whet::jit
