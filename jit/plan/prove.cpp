// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic over nests; docs/proof.md has the argument.
#include "jit/plan/prove.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "jit/plan/nest.hpp"

namespace whet::jit {

namespace {

using base::Code;
using base::make_error;
using base::Result;

/// The smallest and largest value of a sum of terms.
struct Range {
    int64_t low = 0, high = 0;

    /// Adds stride * i for i in [0, count).
    void add(int64_t stride, int64_t count) {
        const int64_t last = stride * (count - 1);
        low += std::min<int64_t>(0, last);
        high += std::max<int64_t>(0, last);
    }
    void shift(int64_t offset) {
        low += offset;
        high += offset;
    }
    /// Adds one of the given values.
    template <typename Values>
    void choose(const Values& values) {
        const auto [least, most] = std::minmax_element(values.begin(), values.end());
        low += *least;
        high += *most;
    }
};

int64_t span_of(const whet_view& view) {
    int64_t last = 0;
    for (int d = 0; d < view.rank; ++d) last += (view.extents[d] - 1) * view.strides[d];
    return last + 1;
}

/// One strip of a plan: its number and the lanes it has.
struct Strip {
    int64_t index, lanes;
};

class Proof {
public:
    explicit Proof(const Plan& plan) : plan_(plan), nest_(*plan.nest) {}

    Result<void> run() const {
        for (const MicrokernelSpec& spec : plan_.kernels)
            if (spec.element != plan_.element)
                return make_error(Code::verify_failed, "microkernel %s: of another element type",
                                  spec.print().c_str());
        for (const Contraction& c : nest_.contractions) {
            for (const Strip& strip : strips_of(c)) WHET_TRY_VOID(check_contraction(c, strip));
            WHET_TRY_VOID(check_tiles(c));
        }
        if (nest_.image.enabled) WHET_TRY_VOID(check_image());
        return nest_.unpack.kind == UnpackKind::none ? check_direct_results() : check_unpack();
    }

private:
    /// Elements that may be addressed at a place.
    int64_t span_at(Place place) const {
        if (place == Place::image)
            return static_cast<int64_t>((nest_.product_offset - nest_.image_offset) /
                                        element_bytes());
        if (place == Place::product)
            return static_cast<int64_t>((nest_.scalar_offset - nest_.product_offset) /
                                        element_bytes());
        return span_of(plan_.op.operands[static_cast<int>(place)]);
    }
    size_t element_bytes() const { return static_cast<size_t>(bytes_of(plan_.element)); }
    static Result<void> within(const char* what, const Range& range, int64_t span) {
        if (range.low >= 0 && range.high < span) return {};
        return make_error(Code::verify_failed,
                          "%s reaches elements %lld to %lld: allowed are 0 to %lld", what,
                          static_cast<long long>(range.low), static_cast<long long>(range.high),
                          static_cast<long long>(span - 1));
    }
    /// Addresses are affine in the strip, so its first, last full and last one are the extremes.
    std::vector<Strip> strips_of(const Contraction& c) const {
        const int64_t count = nest_.outer_extent[2];
        if (nest_.strip_rows == 0 || nest_.rows_are_positions)
            return {{0, c.lanes}, {count - 1, c.lanes}};
        const int64_t last_rows = nest_.output_rows - (count - 1) * nest_.strip_rows;
        std::vector<Strip> strips = {
            {count - 1, (last_rows - 1) * nest_.lanes_per_row + nest_.last_row_lanes}};
        if (count > 1) strips.insert(strips.end(), {{0, c.lanes}, {count - 2, c.lanes}});
        return strips;
    }
    void add_outer(Range& range, const OuterStrides& outer, int64_t strip) const {
        range.add(outer.stride[0], nest_.outer_extent[0]);
        range.add(outer.stride[1], nest_.outer_extent[1]);
        range.shift(outer.stride[2] * strip);
    }
    static void add_groups(Range& range, const Contraction& c, int64_t GroupOffset::*side) {
        for (const auto* groups : {&c.row_groups, &c.lane_groups}) {
            std::vector<int64_t> offsets;
            for (const GroupOffset& group : *groups) offsets.push_back(group.*side);
            range.choose(offsets);
        }
    }

    Result<void> check_contraction(const Contraction& c, const Strip& strip) const {
        Range dst;
        dst.shift(c.dst_base);
        add_outer(dst, c.dst_outer, strip.index);
        add_groups(dst, c, &GroupOffset::dst);
        dst.add(c.dst_row, c.rows);
        dst.add(1, strip.lanes);
        WHET_TRY_VOID(within("the result", dst, span_at(c.dst_place)));
        if (c.bias_axis != BiasAxis::none) {
            Range bias;
            bias.shift(c.bias_base);
            add_outer(bias, c.bias_outer, strip.index);
            bias.add(1, c.bias_axis == BiasAxis::lane  ? strip.lanes
                        : c.bias_axis == BiasAxis::row ? c.rows
                                                       : static_cast<int64_t>(c.row_groups.size()));
            WHET_TRY_VOID(within("the bias", bias, span_of(plan_.op.operands[WHET_BIAS])));
        }
        if (c.degenerate) return {};
        WHET_TRY_VOID(check_side(c, strip, true));
        return check_side(c, strip, false);
    }

    Result<void> check_side(const Contraction& c, const Strip& strip, bool scalar_side) const {
        const Access& access = scalar_side ? c.scalar : c.vector;
        const char* const what = scalar_side ? "the scalar operand" : "the vector operand";
        if (access.source == Source::frozen) {
            Range packed;
            packed.shift(access.packed_base);
            add_outer(packed, access.packed_outer, strip.index);
            packed.add(1, panel_elements(c, scalar_side, true));
            return within(what, packed,
                          static_cast<int64_t>(plan_.frozen[static_cast<int>(access.place)].bytes /
                                               element_bytes()));
        }
        Range range;
        range.shift(access.base);
        add_outer(range, access.outer, strip.index);
        range.add(access.channel_stride, c.channels);
        range.choose(access.tap_offsets);
        if (access.source == Source::in_place)
            add_groups(range, c, scalar_side ? &GroupOffset::scalar : &GroupOffset::vector);
        if (scalar_side)
            range.add(access.axis_stride, c.rows);
        else {
            // Scratch is read for a whole tile; the caller's memory, and what is packed from it, to
            // the last lane.
            const bool whole_tiles =
                access.place == Place::image && access.source == Source::in_place;
            range.add(
                access.source == Source::in_place && !c.transposed_vector ? 1 : access.axis_stride,
                whole_tiles ? c.lane_tiles(strip.lanes) * c.tile_lanes : strip.lanes);
            range.add(c.vector_row_stride, c.rows);
        }
        WHET_TRY_VOID(within(what, range, span_at(access.place)));
        if (access.source == Source::in_place) return {};
        Range packed;
        packed.add(1, panel_elements(c, scalar_side, access.whole));
        const size_t end = scalar_side ? nest_.vector_offset : plan_.private_bytes;
        const size_t begin = scalar_side ? nest_.scalar_offset : nest_.vector_offset;
        return within("the panels", packed, static_cast<int64_t>((end - begin) / element_bytes()));
    }

    /// Elements of a whole packed side, or of its largest block.
    static int64_t panel_elements(const Contraction& c, bool scalar_side, bool whole) {
        const int64_t depth = c.taps * (whole ? c.channels : std::min(c.segment, c.channels));
        if (!scalar_side)
            return (whole ? c.lane_tiles(c.lanes) : c.lane_block) * c.tile_lanes * depth;
        if (whole) return c.rows * depth;
        return std::min(c.rows, c.row_block * (c.narrow_rows + (c.wide_tiles > 0 ? 1 : 0))) * depth;
    }

    /// Row tiles partition the rows; segments partition the channels; tap tables are as long as the
    /// taps.
    Result<void> check_tiles(const Contraction& c) const {
        if (c.reads_transposed() &&
            (c.lanes < lanes_of(plan_.isa, plan_.element) || c.channels % kTransposedSteps != 0 ||
             c.segment % kTransposedSteps != 0))
            return make_error(Code::verify_failed,
                              "%lld lanes and segments of %lld, transposed: less than a vector, or "
                              "not whole groups of steps",
                              static_cast<long long>(c.lanes), static_cast<long long>(c.segment));
        if (c.rows_before(c.row_tiles) != c.rows || c.wide_tiles > c.row_tiles)
            return make_error(Code::verify_failed, "row tiles cover %lld rows: expected %lld",
                              static_cast<long long>(c.rows_before(c.row_tiles)),
                              static_cast<long long>(c.rows));
        if (c.segments * c.segment < c.channels ||
            (c.segments - 1) * c.segment >= std::max<int64_t>(c.channels, 1))
            return make_error(Code::verify_failed, "%lld segments of %lld do not cut %lld channels",
                              static_cast<long long>(c.segments), static_cast<long long>(c.segment),
                              static_cast<long long>(c.channels));
        for (const auto& side : c.tap_table)
            for (const auto& table : side)
                if (c.kernel_taps && static_cast<int64_t>(table.size()) != 2 * c.taps)
                    return make_error(Code::verify_failed,
                                      "a tap table of %zu numbers: expected %lld", table.size(),
                                      static_cast<long long>(2 * c.taps));
        return {};
    }

    Result<void> check_image() const {
        const ImageCopy& image = nest_.image;
        Range source, copy;
        source.add(image.source_outer[0], nest_.outer_extent[0]);
        source.add(image.source_outer[1], nest_.outer_extent[1]);
        source.add(image.source_image, image.images);
        source.add(image.source_channel, image.channels);
        source.add(image.source_row, image.source_rows);
        source.add(image.source_column, image.source_columns);
        WHET_TRY_VOID(within("the image's source", source, span_at(Place::a)));
        copy.add(image.image_size, image.images);
        copy.add(image.channel_stride, image.channels);
        copy.add(1, image.plane() * image.planes_rows * image.planes_columns);
        return within("the image", copy, span_at(Place::image));
    }

    Result<void> check_unpack() const {
        const Unpack& u = nest_.unpack;
        const bool transposed = u.kind == UnpackKind::transposed;
        const int64_t columns = (u.columns + u.phase_columns - 1) / u.phase_columns;
        Range product, dst;
        product.add(u.product_image, u.images);
        product.add(transposed ? 1 : u.product_row, u.channels);
        product.add(transposed ? u.pitch * u.product_row : u.pitch, nest_.strip_rows);
        product.add(transposed ? u.product_row : 1, columns);
        product.add(u.phase_size, u.phase_rows * u.phase_columns);
        WHET_TRY_VOID(within("the product", product, span_at(Place::product)));
        dst.add(u.dst_outer[0], nest_.outer_extent[0]);
        dst.add(u.dst_outer[1], nest_.outer_extent[1]);
        dst.add(u.dst_image, u.images);
        dst.add(u.dst_channel, u.channels);
        dst.add(u.dst_row, u.rows);
        dst.add(u.dst_column, u.columns);
        WHET_TRY_VOID(within("the unpacked result", dst, span_at(Place::dst)));
        const int64_t written = nest_.outer_extent[0] * nest_.outer_extent[1] * u.images *
                                u.channels * u.rows * u.columns;
        return count_results(written);
    }

    /// Without unpacking the tiles write dst: their number must be dst's, and their strides nest.
    Result<void> check_direct_results() const {
        if (nest_.softmax_kernel >= 0) return {};
        const Contraction& c = nest_.contractions.front();
        const int64_t full_strips = nest_.outer_extent[2] - 1;
        const Strip last = strips_of(c).front();
        const int64_t lanes = nest_.rows_are_positions || nest_.strip_rows == 0
                                  ? c.lanes * nest_.outer_extent[2]
                                  : c.lanes * full_strips + last.lanes;
        const auto groups = static_cast<int64_t>(c.row_groups.size() * c.lane_groups.size());
        WHET_TRY_VOID(
            count_results(nest_.outer_extent[0] * nest_.outer_extent[1] * c.rows * groups * lanes));
        // Strips that follow each other are one run of lanes: the last may be shorter.
        const bool one_run = c.dst_outer.stride[2] == c.lanes && !nest_.rows_are_positions;
        std::vector<std::pair<int64_t, int64_t>> loops = {{1, one_run ? lanes : c.lanes},
                                                          {c.dst_row, c.rows}};
        for (int loop = 0; loop < (one_run ? 2 : kOuterLoops); ++loop)
            loops.push_back({c.dst_outer.stride[loop], nest_.outer_extent[loop]});
        for (const auto* of : {&c.row_groups, &c.lane_groups})
            if (of->size() > 1) loops.push_back({(*of)[1].dst, static_cast<int64_t>(of->size())});
        std::erase_if(loops, [](const auto& loop) { return loop.second == 1; });
        std::sort(loops.begin(), loops.end());
        int64_t reach = 0;  // the largest offset of the loops so far
        for (const auto& [stride, count] : loops) {
            if (stride <= reach)
                return make_error(Code::verify_failed,
                                  "results overlap: a loop of stride %lld over %lld elements",
                                  static_cast<long long>(stride),
                                  static_cast<long long>(reach + 1));
            reach += stride * (count - 1);
        }
        return {};
    }
    Result<void> count_results(int64_t written) const {
        int64_t expected = 1;
        const whet_view& dst = plan_.op.operands[WHET_DST];
        for (int d = 0; d < dst.rank; ++d) expected *= dst.extents[d];
        if (written == expected) return {};
        return make_error(Code::verify_failed, "%lld results are written: expected %lld",
                          static_cast<long long>(written), static_cast<long long>(expected));
    }

    const Plan& plan_;
    const Nest& nest_;
};

}  // namespace

base::Result<void> prove_addresses(const Plan& plan) { return Proof(plan).run(); }

}  // namespace whet::jit
