// SPDX-License-Identifier: Apache-2.0
// Convolutions: pixels along the lanes, channels along the lanes, depthwise, and transposed ones by
// output phases.
#include <algorithm>

#include "jit/plan/lower.hpp"

namespace whet::jit {

namespace {

using base::Code;
using base::make_error;
using base::Result;

/// Extents and strides of a convolution of one or two spatial axes; a 1D one has one row.
struct Shape {
    int64_t batch, groups, out_channels, in_channels;  // channels of one group
    int64_t rows, columns, out_rows, out_columns, kernel_rows, kernel_columns;
    int64_t stride_rows, stride_columns, pad_rows, pad_columns, dilation_rows, dilation_columns;
    int64_t source[4], dst[4];  // strides: batch, channel, row, column
    int64_t weight_out, weight_in, weight_row, weight_column;  // strides
    int64_t weight_group;                                      // elements between groups

    int64_t taps() const { return kernel_rows * kernel_columns; }
};

Result<Shape> shape_of(const whet_op& op) {
    if (op.spatial_rank < 1 || op.spatial_rank > 2)
        return make_error(Code::unsupported, "%d spatial axes: expected 1 or 2", op.spatial_rank);
    const whet_view& src = op.operands[WHET_A];
    const whet_view& weights = op.operands[WHET_B];
    const whet_view& dst = op.operands[WHET_DST];
    const bool flat = op.spatial_rank == 1;
    const int last = flat ? 0 : 1;  // index of the column axis in attributes
    const auto row = [&](const int32_t* values, int32_t none) {
        return static_cast<int64_t>(flat ? none : values[0]);
    };
    Shape s{};
    s.batch = dst.extents[0];
    s.groups = op.groups;
    s.out_channels = dst.extents[1] / op.groups;
    s.in_channels = src.extents[1] / op.groups;
    s.rows = flat ? 1 : src.extents[2];
    s.columns = src.extents[2 + last];
    s.out_rows = flat ? 1 : dst.extents[2];
    s.out_columns = dst.extents[2 + last];
    s.kernel_rows = flat ? 1 : weights.extents[2];
    s.kernel_columns = weights.extents[2 + last];
    s.stride_rows = row(op.stride, 1);
    s.stride_columns = op.stride[last];
    s.pad_rows = row(op.padding, 0);
    s.pad_columns = op.padding[last];
    s.dilation_rows = row(op.dilation, 1);
    s.dilation_columns = op.dilation[last];
    for (const auto& [view, strides] : {std::pair{&src, s.source}, std::pair{&dst, s.dst}}) {
        strides[0] = view->strides[0];
        strides[1] = view->strides[1];
        strides[2] = flat ? 0 : view->strides[2];
        strides[3] = view->extents[2 + last] == 1 ? 1 : view->strides[2 + last];
    }
    const bool transposed = op.kind == WHET_CONV_TRANSPOSE;
    s.weight_out = weights.strides[transposed ? 1 : 0];
    s.weight_in = weights.strides[transposed ? 0 : 1];
    s.weight_row = flat ? 0 : weights.strides[2];
    s.weight_column = weights.strides[2 + last];
    s.weight_group = transposed ? s.in_channels * s.weight_in : s.out_channels * s.weight_out;
    return s;
}

/// Elements between two consecutive things of scratch: a multiple of 16, off the multiples of 4 KiB
/// where lines of all of them would compete for one set of the first-level cache.
int64_t spread(int64_t elements) {
    const int64_t rounded = (elements + 15) / 16 * 16;
    return rounded % 1024 == 0 ? rounded + 16 : rounded;
}

Access weight_access(const Shape& s, Source source) {
    Access access;
    access.source = source;
    access.place = Place::b;
    access.axis_stride = s.weight_out;
    access.channel_stride = s.weight_in;
    access.outer.stride[1] = s.weight_group;
    for (int64_t y = 0; y < s.kernel_rows; ++y)
        for (int64_t x = 0; x < s.kernel_columns; ++x)
            access.tap_offsets.push_back(y * s.weight_row + x * s.weight_column);
    return access;
}

Result<void> check_frozen(const Lowering& lowering) {
    if (lowering.schedule.scalar != Source::frozen && lowering.schedule.vector != Source::frozen)
        return {};
    if (lowering.op.frozen >> WHET_B & 1) return {};
    return make_error(Code::invalid_argument, "weights are not frozen");
}

/// How a convolution's outer loops are cut: output rows of a strip, images and (depthwise) channels
/// of a task.
struct Strips {
    int64_t rows;
    int64_t images = 1;
    int64_t channels = 1;
};

/// The parts of an image copy that all structures share.
ImageCopy& start_image(const Shape& s, Nest& nest, const Strips& strips) {
    ImageCopy& image = nest.image;
    image.enabled = true;
    image.images = strips.images;
    image.source_image = s.source[0];
    image.channels = s.in_channels * strips.channels;
    image.source_outer[0] = strips.images * s.source[0];
    image.source_outer[1] = image.channels * s.source[1];
    image.source_channel = s.source[1];
    image.source_row = s.source[2];
    image.source_column = s.source[3];
    image.source_rows = s.rows;
    image.source_columns = s.columns;
    return image;
}

/// True when taps can read the caller's image itself: no padding, no stride, rows that follow each
/// other.
bool readable_in_place(const Shape& s) {
    return s.stride_rows == 1 && s.stride_columns == 1 && s.pad_rows == 0 && s.pad_columns == 0 &&
           s.source[3] == 1 && (s.rows == 1 || s.source[2] == s.columns);
}

/// The image side of a forward convolution: the caller's memory, or a padded copy of each strip.
Access image_access(const Shape& s, Nest& nest, const Strips& strips, bool in_place,
                    int64_t* pitch) {
    const int64_t strip_rows = strips.rows;
    Access access;
    access.source = Source::in_place;
    access.axis_stride = 1;
    if (in_place) {
        access.place = Place::a;
        access.channel_stride = s.source[1];
        access.outer = {{strips.images * s.source[0], strips.channels * s.in_channels * s.source[1],
                         strip_rows * s.columns}};
        *pitch = s.columns;
        for (int64_t y = 0; y < s.kernel_rows; ++y)
            for (int64_t x = 0; x < s.kernel_columns; ++x)
                access.tap_offsets.push_back(y * s.dilation_rows * *pitch + x * s.dilation_columns);
        return access;
    }
    ImageCopy& image = start_image(s, nest, strips);
    image.pad_rows = s.pad_rows;
    image.pad_columns = s.pad_columns;
    image.stride_rows = s.stride_rows;
    image.stride_columns = s.stride_columns;
    image.planes_rows = s.kernel_rows == 1 ? 1 : s.stride_rows;
    image.planes_columns = s.kernel_columns == 1 ? 1 : s.stride_columns;
    image.plane_rows = strip_rows + (s.kernel_rows - 1) * s.dilation_rows / s.stride_rows;
    image.pitch = s.out_columns + (s.kernel_columns - 1) * s.dilation_columns / s.stride_columns;
    image.channel_stride = spread(image.plane() * image.planes_rows * image.planes_columns);
    image.image_size = image.channel_stride * image.channels;
    access.place = Place::image;
    access.channel_stride = image.channel_stride;
    *pitch = image.pitch;
    for (int64_t ky = 0; ky < s.kernel_rows; ++ky)
        for (int64_t kx = 0; kx < s.kernel_columns; ++kx) {
            const int64_t y = ky * s.dilation_rows, x = kx * s.dilation_columns;
            const int64_t plane = y % s.stride_rows * image.planes_columns + x % s.stride_columns;
            access.tap_offsets.push_back(plane * image.plane() + y / s.stride_rows * image.pitch +
                                         x / s.stride_columns);
        }
    return access;
}

Result<void> set_strips(Lowering& lowering, const Shape& s, const Strips& strips,
                        int64_t output_rows) {
    if (s.batch % strips.images != 0)
        return make_error(Code::invalid_argument, "fold %lld does not divide the batch %lld",
                          static_cast<long long>(strips.images), static_cast<long long>(s.batch));
    if (s.groups % strips.channels != 0 || strips.channels > kMaxFold)
        return make_error(
            Code::invalid_argument, "fold %lld: expected a divisor of %lld channels, at most %d",
            static_cast<long long>(strips.channels), static_cast<long long>(s.groups), kMaxFold);
    Nest& nest = lowering.nest;
    nest.strip_rows = strips.rows;
    nest.output_rows = output_rows;
    nest.outer_extent[0] = s.batch / strips.images;
    nest.outer_extent[1] = s.groups / strips.channels;
    nest.outer_extent[2] = (output_rows + strips.rows - 1) / strips.rows;
    lowering.plan.phases = {{nest.outer_extent[0] * nest.outer_extent[1] * nest.outer_extent[2]}};
    return {};
}

void set_bias(const Lowering& lowering, const Shape& s, Contraction& c, BiasAxis axis) {
    if (lowering.computation.bias_dimension < 0) return;
    c.bias_axis = axis;
    c.bias_outer.stride[1] = s.out_channels;
}

Unpack unpack_of(const Shape& s, UnpackKind kind, int64_t images, int64_t product_row,
                 int64_t pitch) {
    Unpack unpack;
    unpack.kind = kind;
    unpack.images = images;
    unpack.dst_image = s.dst[0];
    unpack.channels = s.out_channels;
    unpack.product_row = product_row;
    unpack.pitch = pitch;
    unpack.columns = s.out_columns;
    unpack.rows = s.out_rows;
    unpack.dst_outer[0] = images * s.dst[0];
    unpack.dst_outer[1] = s.out_channels * s.dst[1];
    unpack.dst_channel = s.dst[1];
    unpack.dst_row = s.dst[2];
    unpack.dst_column = s.dst[3];
    return unpack;
}

/// Image elements, with what a whole vector tile may read past the last position.
int64_t image_elements(const Nest& nest, int tile_lanes) {
    return nest.image.enabled ? nest.image.images * nest.image.image_size + tile_lanes : 0;
}

int64_t strip_rows_of(const Schedule& schedule, int64_t output_rows) {
    return schedule.outer_block == 0 ? output_rows
                                     : std::min<int64_t>(schedule.outer_block, output_rows);
}

}  // namespace

base::Result<void> lower_conv(Lowering& lowering) {
    if (lowering.op.kind != WHET_CONV) return make_error(Code::unsupported, "not a convolution");
    WHET_TRY(const Shape s, shape_of(lowering.op));
    WHET_TRY_VOID(check_frozen(lowering));
    const Schedule& schedule = lowering.schedule;
    Nest& nest = lowering.nest;
    const bool pixels = schedule.structure == Structure::pixels;
    const Source image_source = pixels ? schedule.vector : schedule.scalar;
    const Source weight_source = pixels ? schedule.scalar : schedule.vector;
    if (image_source == Source::frozen)
        return make_error(Code::invalid_argument, "the image cannot be frozen");
    const bool in_place = image_source == Source::in_place;
    if (in_place && !readable_in_place(s))
        return make_error(Code::unsupported,
                          "image in place: needs stride 1, no padding, rows of %lld elements",
                          static_cast<long long>(s.columns));
    if (!pixels && weight_source == Source::in_place && s.weight_out != 1)
        return make_error(Code::unsupported,
                          "weights in place: stride %lld along the output channels, expected 1",
                          static_cast<long long>(s.weight_out));
    const int64_t strip_rows = strip_rows_of(schedule, s.out_rows);
    if (!pixels && s.out_rows % strip_rows != 0)
        return make_error(Code::invalid_argument, "strips of %lld rows do not divide %lld",
                          static_cast<long long>(strip_rows), static_cast<long long>(s.out_rows));
    const Strips strips{strip_rows, schedule.fold};
    WHET_TRY_VOID(set_strips(lowering, s, strips, s.out_rows));

    Contraction c;
    int64_t pitch = 0;
    c.taps = s.taps();
    c.channels = s.in_channels;
    c.segment = lowering.computation.segment;
    const Access image = image_access(s, nest, strips, in_place, &pitch);
    const Access weights = weight_access(s, weight_source);
    nest.rows_are_positions = !pixels;
    nest.lanes_per_row = pitch;
    nest.last_row_lanes = s.out_columns;
    set_bias(lowering, s, c, pixels ? BiasAxis::row : BiasAxis::lane);
    const int64_t image_step = in_place ? s.source[0] : nest.image.image_size;
    int64_t product = 0;
    if (pixels) {
        c.scalar = weights;
        c.vector = image;
        c.rows = s.out_channels;
        c.lanes = (strip_rows - 1) * pitch + s.out_columns;
        const bool direct =
            s.dst[3] == 1 && (s.out_rows == 1 || (pitch == s.out_columns && s.dst[2] == pitch));
        const int64_t positions = spread(c.lanes);
        for (int64_t i = 1; i < strips.images; ++i)
            c.lane_groups.push_back({0, i * image_step, i * (direct ? s.dst[0] : positions)});
        if (direct) {
            c.dst_row = s.dst[1];
            c.dst_outer = {
                {strips.images * s.dst[0], s.out_channels * s.dst[1], strip_rows * s.dst[2]}};
        } else {
            c.dst_place = Place::product;
            c.dst_row = spread(positions * strips.images);
            product = c.dst_row * c.rows;
            nest.unpack = unpack_of(s, UnpackKind::pitched, strips.images, c.dst_row, pitch);
            nest.unpack.product_image = positions;
        }
    } else {
        // One group an output row: no position is computed that is not stored.
        c.scalar = image;
        c.vector = weights;
        c.rows = s.out_columns;
        c.lanes = s.out_channels;
        c.dst_place = Place::product;
        c.dst_row = spread(s.out_channels);
        c.row_groups.clear();
        for (int64_t i = 0; i < strips.images; ++i)
            for (int64_t y = 0; y < strip_rows; ++y)
                c.row_groups.push_back({i * image_step + y * pitch, 0,
                                        (i * strip_rows + y) * s.out_columns * c.dst_row});
        product = c.dst_row * s.out_columns * strip_rows * strips.images;
        nest.unpack = unpack_of(s, UnpackKind::transposed, strips.images, c.dst_row, s.out_columns);
        nest.unpack.product_image = strip_rows * s.out_columns * c.dst_row;
    }
    WHET_TRY_VOID(finish_contraction(lowering, c));
    Access& packed = pixels ? c.scalar : c.vector;
    packed.packed_outer.stride[1] = s.groups > 1 ? packed_elements(c, pixels) : 0;
    const int tile_lanes = c.tile_lanes;
    nest.contractions.push_back(std::move(c));
    lay_out_scratch(lowering, image_elements(nest, tile_lanes), product);
    return {};
}

base::Result<void> lower_depthwise(Lowering& lowering) {
    if (lowering.op.kind != WHET_CONV)
        return make_error(Code::unsupported, "depthwise: not a convolution");
    WHET_TRY(const Shape s, shape_of(lowering.op));
    if (s.out_channels != 1 || s.in_channels != 1)
        return make_error(
            Code::unsupported, "depthwise: %lld to %lld channels in a group, expected 1 to 1",
            static_cast<long long>(s.in_channels), static_cast<long long>(s.out_channels));
    const Schedule& schedule = lowering.schedule;
    if (schedule.scalar != Source::in_place || schedule.vector == Source::frozen)
        return make_error(Code::invalid_argument,
                          "depthwise: weights are read in place, the image cannot be frozen");
    const bool in_place = schedule.vector == Source::in_place;
    if (in_place && !readable_in_place(s))
        return make_error(Code::unsupported,
                          "image in place: needs stride 1, no padding, rows of %lld elements",
                          static_cast<long long>(s.columns));
    if (s.dst[3] != 1)
        return make_error(Code::unsupported, "depthwise: dst column stride %lld, expected 1",
                          static_cast<long long>(s.dst[3]));
    const int64_t strip_rows = strip_rows_of(schedule, s.out_rows);
    if (s.out_rows % strip_rows != 0)
        return make_error(Code::invalid_argument, "strips of %lld rows do not divide %lld",
                          static_cast<long long>(strip_rows), static_cast<long long>(s.out_rows));
    Nest& nest = lowering.nest;
    const Strips strips{strip_rows, 1, schedule.fold};
    WHET_TRY_VOID(set_strips(lowering, s, strips, s.out_rows));
    Contraction c;
    int64_t pitch = 0;
    c.vector = image_access(s, nest, strips, in_place, &pitch);
    c.scalar = weight_access(s, Source::in_place);
    c.scalar.axis_stride = 0;
    c.scalar.outer.stride[1] = strips.channels * s.weight_out;
    for (int64_t i = 1; i < strips.channels; ++i)
        c.row_groups.push_back({i * s.weight_out,
                                i * (in_place ? s.source[1] : nest.image.channel_stride),
                                i * s.dst[1]});
    c.vector_row_stride = pitch;
    nest.rows_are_positions = true;
    c.taps = s.taps();
    c.channels = 1;
    c.segment = lowering.computation.segment;
    c.rows = strip_rows;
    c.lanes = s.out_columns;
    c.dst_row = s.out_rows == 1 ? s.out_columns : s.dst[2];
    c.dst_outer = {{s.dst[0], strips.channels * s.dst[1], strip_rows * s.dst[2]}};
    if (lowering.computation.bias_dimension >= 0) {
        c.bias_axis = BiasAxis::uniform;
        c.bias_outer.stride[1] = strips.channels;
    }
    WHET_TRY_VOID(finish_contraction(lowering, c));
    const int tile_lanes = c.tile_lanes;
    nest.contractions.push_back(std::move(c));
    lay_out_scratch(lowering, image_elements(nest, tile_lanes), 0);
    return {};
}

namespace {

/// The kernel positions that meet an input at one residue of the output position, along one axis.
struct PhaseTaps {
    std::vector<int64_t> kernel;  ///< kernel positions, ascending
    std::vector<int64_t> shift;   ///< input position minus the phase's output position
};

PhaseTaps phase_taps(int64_t phase, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation) {
    PhaseTaps taps;
    for (int64_t k = 0; k < kernel; ++k) {
        const int64_t distance = phase + pad - k * dilation;
        if (distance % stride != 0) continue;
        taps.kernel.push_back(k);
        taps.shift.push_back(distance / stride);
    }
    return taps;
}

/// Smallest and largest shift over all phases of one axis, 0 included.
std::pair<int64_t, int64_t> shift_range(int64_t kernel, int64_t stride, int64_t pad,
                                        int64_t dilation) {
    std::pair<int64_t, int64_t> range{0, 0};
    for (int64_t phase = 0; phase < stride; ++phase)
        for (const int64_t shift : phase_taps(phase, kernel, stride, pad, dilation).shift) {
            range.first = std::min(range.first, shift);
            range.second = std::max(range.second, shift);
        }
    return range;
}

}  // namespace

base::Result<void> lower_phases(Lowering& lowering) {
    if (lowering.op.kind != WHET_CONV_TRANSPOSE)
        return make_error(Code::unsupported, "not a transposed convolution");
    WHET_TRY(const Shape s, shape_of(lowering.op));
    WHET_TRY_VOID(check_frozen(lowering));
    const Schedule& schedule = lowering.schedule;
    if (schedule.vector != Source::packed)
        return make_error(Code::unsupported, "phases: the image is always copied (vector=packed)");
    Nest& nest = lowering.nest;
    const auto [first_y, last_y] =
        shift_range(s.kernel_rows, s.stride_rows, s.pad_rows, s.dilation_rows);
    const auto [first_x, last_x] =
        shift_range(s.kernel_columns, s.stride_columns, s.pad_columns, s.dilation_columns);
    const int64_t phase_rows = (s.out_rows + s.stride_rows - 1) / s.stride_rows;
    const int64_t phase_columns = (s.out_columns + s.stride_columns - 1) / s.stride_columns;
    const int64_t strip_rows = strip_rows_of(schedule, phase_rows);
    const Strips strips{strip_rows, schedule.fold};
    WHET_TRY_VOID(set_strips(lowering, s, strips, phase_rows));

    ImageCopy& image = start_image(s, nest, strips);
    image.pad_rows = -first_y;
    image.pad_columns = -first_x;
    image.plane_rows = strip_rows + last_y - first_y;
    image.pitch = phase_columns + last_x - first_x;
    image.channel_stride = spread(image.plane());
    image.image_size = image.channel_stride * image.channels;
    nest.lanes_per_row = image.pitch;
    nest.last_row_lanes = phase_columns;
    const int64_t positions = (strip_rows - 1) * image.pitch + phase_columns;
    const int64_t product_image = spread(positions),
                  product_row = spread(product_image * strips.images);
    nest.unpack = unpack_of(s, UnpackKind::phases, strips.images, product_row, image.pitch);
    nest.unpack.product_image = product_image;
    nest.unpack.phase_rows = s.stride_rows;
    nest.unpack.phase_columns = s.stride_columns;
    nest.unpack.phase_size = product_row * s.out_channels;

    int64_t packed_base = 0;
    int tile_lanes = 0;
    for (int64_t phase = 0; phase < s.stride_rows * s.stride_columns; ++phase) {
        const PhaseTaps y = phase_taps(phase / s.stride_columns, s.kernel_rows, s.stride_rows,
                                       s.pad_rows, s.dilation_rows);
        const PhaseTaps x = phase_taps(phase % s.stride_columns, s.kernel_columns, s.stride_columns,
                                       s.pad_columns, s.dilation_columns);
        Contraction c;
        c.scalar = weight_access(s, schedule.scalar);
        c.scalar.tap_offsets.clear();
        c.vector.source = Source::in_place;
        c.vector.place = Place::image;
        c.vector.axis_stride = 1;
        c.vector.channel_stride = image.channel_stride;
        for (size_t i = 0; i < y.kernel.size(); ++i)
            for (size_t j = 0; j < x.kernel.size(); ++j) {
                c.scalar.tap_offsets.push_back(y.kernel[i] * s.weight_row +
                                               x.kernel[j] * s.weight_column);
                c.vector.tap_offsets.push_back((y.shift[i] - first_y) * image.pitch + x.shift[j] -
                                               first_x);
            }
        c.taps = static_cast<int64_t>(c.scalar.tap_offsets.size());
        c.channels = s.in_channels;
        c.segment = lowering.computation.segment;
        c.rows = s.out_channels;
        c.lanes = positions;
        for (int64_t i = 1; i < strips.images; ++i)
            c.lane_groups.push_back({0, i * image.image_size, i * product_image});
        c.dst_place = Place::product;
        c.dst_base = phase * nest.unpack.phase_size;
        c.dst_row = product_row;
        set_bias(lowering, s, c, BiasAxis::row);
        WHET_TRY_VOID(finish_contraction(lowering, c));
        c.scalar.packed_base = packed_base;
        packed_base += packed_elements(c, true);
        tile_lanes = c.tile_lanes;
        nest.contractions.push_back(std::move(c));
    }
    if (s.groups > 1)
        for (Contraction& c : nest.contractions) c.scalar.packed_outer.stride[1] = packed_base;
    lay_out_scratch(lowering, image_elements(nest, tile_lanes),
                    nest.unpack.phase_size * s.stride_rows * s.stride_columns);
    return {};
}

}  // namespace whet::jit
