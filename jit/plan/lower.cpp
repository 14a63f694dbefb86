// SPDX-License-Identifier: Apache-2.0
// Lowering, step by step: check, structure, contraction, scratch, frozen layouts. Read this file
// first.
#include "jit/plan/lower.hpp"

#include <algorithm>
#include <cmath>

#include "base/hash.hpp"

namespace whet::jit {

namespace {

using base::Code;
using base::make_error;
using base::Result;

Result<void> check_frame(const whet_op& op, const Schedule& s) {
    if (is_empty(op)) return make_error(Code::unsupported, "an empty result: nothing to plan");
    if (s.rows < 1 || s.rows > kMaxTileRows)
        return make_error(Code::invalid_argument, "tile rows %d: expected 1 to %d", s.rows,
                          kMaxTileRows);
    if (s.vectors < 1 || s.vectors > 8)
        return make_error(Code::invalid_argument, "tile vectors %d: expected 1 to 8", s.vectors);
    if (s.scalar == Source::fused ||
        (s.vector == Source::fused && s.structure != Structure::matmul))
        return make_error(
            Code::unsupported,
            "fused: only the vector operand of a matrix product is packed in passing");
    if (s.unroll != 1 && s.unroll != 2 && s.unroll != 4 && s.unroll != 8)
        return make_error(Code::invalid_argument, "unroll %d: expected 1, 2, 4 or 8", s.unroll);
    if (s.scalar == Source::frozen && s.vector == Source::frozen)
        return make_error(Code::invalid_argument, "both sides frozen: at most one");
    if (s.prefetch > kScheduleAhead && is_ahead(s.prefetch))
        return make_error(Code::invalid_argument, "prefetch %d: expected 0, 1 or at least 3",
                          s.prefetch);
    if (s.fold < 1) return make_error(Code::invalid_argument, "fold 0: expected at least 1");
    if (s.parallel > 3)
        return make_error(Code::invalid_argument, "parallel loops %d: expected 0 to 3", s.parallel);
    return {};
}

Result<void> lower_structure(Lowering& lowering) {
    switch (lowering.schedule.structure) {
        case Structure::matmul: return lower_matmul(lowering);
        case Structure::pixels:
        case Structure::channels: return lower_conv(lowering);
        case Structure::depthwise: return lower_depthwise(lowering);
        case Structure::phases: return lower_phases(lowering);
        case Structure::row_softmax: return lower_softmax(lowering);
    }
    return make_error(Code::invalid_argument, "structure %d: expected 0 to 5",
                      static_cast<int>(lowering.schedule.structure));
}

size_t padded_bytes(int64_t elements, Element element) {
    return (static_cast<size_t>(elements * bytes_of(element)) + 63) / 64 * 64;
}

/// Tap offsets as the microkernels take them: of the operand in place, or within panels whose size
/// follows from the segment's channels and the tile's rows.
void set_tap_tables(Contraction& c) {
    if (!c.kernel_taps) return;
    for (const bool last : {false, true})
        for (const bool wide : {false, true}) {
            const int64_t k = last ? c.channels - (c.segments - 1) * c.segment : c.segment;
            const int64_t width = c.narrow_rows + (wide ? 1 : 0);
            std::vector<int64_t>& table = c.tap_table[last][wide];
            for (int64_t tap = 0; tap < c.taps; ++tap) {
                const auto at = static_cast<size_t>(tap);
                table.push_back(c.scalar.source == Source::in_place ? c.scalar.tap_offsets[at]
                                                                    : tap * k * width);
                table.push_back(c.vector.source == Source::in_place ? c.vector.tap_offsets[at]
                                                                    : tap * k * c.tile_lanes);
            }
        }
}

void set_uniform_groups(Contraction& c) {
    if (c.row_groups.size() == 1 || c.row_tiles != 1) return;
    const GroupOffset step = c.row_groups[1];
    for (size_t g = 1; g < c.row_groups.size(); ++g) {
        const GroupOffset& before = c.row_groups[g - 1];
        if (c.row_groups[g] != GroupOffset{before.scalar + step.scalar, before.vector + step.vector,
                                           before.dst + step.dst})
            return;
    }
    c.uniform_row_groups = true;
}

ScalarForm scalar_form(const Contraction& c) {
    if (c.vector_row_stride != 0) return ScalarForm::uniform;
    if (c.scalar.source != Source::in_place) return ScalarForm::packed;
    if (c.scalar.channel_stride == 1 || c.channels == 1) return ScalarForm::rows_strided;
    if (c.scalar.axis_stride == 1) return ScalarForm::packed;
    return ScalarForm::general;
}

}  // namespace

base::Result<Plan> lower(const whet_op& op, const Schedule& schedule, Isa isa) {
    WHET_TRY_VOID(check_frame(op, schedule));
    WHET_TRY(Computation computation, computation_of(op));
    Plan plan;
    plan.op = op;
    plan.schedule = schedule;
    plan.isa = isa;
    plan.element = element_of(op);
    auto nest = std::make_shared<Nest>();
    Lowering lowering{op, computation, schedule, plan, *nest};
    WHET_TRY_VOID(lower_structure(lowering));
    set_frozen_layouts(lowering);
    plan.nest = std::move(nest);
    return plan;
}

base::Result<void> check_schedule(const whet_op& op, const Schedule& schedule, Isa isa) {
    auto plan = lower(op, schedule, isa);
    if (!plan) return std::move(plan).error();
    return {};
}

void set_row_tiles(Contraction& contraction, int64_t rows, int most) {
    contraction.rows = rows;
    contraction.row_tiles = (rows + most - 1) / most;
    contraction.narrow_rows = static_cast<int>(rows / contraction.row_tiles);
    contraction.wide_tiles = rows % contraction.row_tiles;
}

base::Result<int> kernel_index(Plan& plan, const MicrokernelSpec& spec) {
    WHET_TRY_VOID(spec.check());
    const auto found = std::find(plan.kernels.begin(), plan.kernels.end(), spec);
    if (found != plan.kernels.end()) return static_cast<int>(found - plan.kernels.begin());
    plan.kernels.push_back(spec);
    return static_cast<int>(plan.kernels.size()) - 1;
}

namespace {

/// The prefetches that fetch a whole panel of the vector operand while the row tiles of a block use
/// the one before it; of a transposed one, what its microkernels come to next.
base::Result<uint8_t> prefetch_ahead(Contraction& c, Element element) {
    constexpr int64_t kLine = 64;
    if (c.transposed_vector) {
        c.ahead = true;
        return kAheadLine;
    }
    const bool fused = c.vector.source == Source::fused;
    if (fused) {
        c.ahead = true;
        // The rows that the next lane block reads are one run of memory; its first reader fetches
        // others by itself.
        const bool lanes_first =
            c.order == LoopOrder::lsr || c.order == LoopOrder::lrs || c.segments == 1;
        if (!lanes_first || c.vector.axis_stride != c.channels) return 0;
    } else if (c.vector.source != Source::frozen || c.kernel_taps) {
        return make_error(Code::invalid_argument,
                          "prefetch of the next panel: the vector operand has none packed ahead");
    }
    const int64_t row_bytes = c.tile_lanes * int64_t{bytes_of(element)};
    const int64_t tiles = fused ? c.all_row_tiles() - 1 : c.row_block;
    int64_t needed = (row_bytes + tiles - 1) / tiles;
    // Short last segments are followed by longer panels, where a block has few of them.
    const int64_t last = c.channels - (c.segments - 1) * c.segment;
    if (c.segments > 1 && c.lane_block < 4 && !fused)
        needed = std::min(row_bytes, needed * ((c.segment + last - 1) / last));
    c.ahead = true;
    c.most_ahead_step = needed <= kLine ? kLine : row_bytes;
    return needed <= kLine ? kAheadLine : kAheadRow;
}

/// What the first row tile needs to pack the vector operand for the others.
base::Result<void> check_fused(const Contraction& c, int64_t lanes) {
    if (c.vector.whole)
        return make_error(Code::unsupported,
                          "fused: a loop over row blocks lies outside one over lane blocks");
    const int64_t last_lanes = c.lanes % c.tile_lanes;
    if (last_lanes != 0 && last_lanes < lanes)
        return make_error(Code::unsupported,
                          "fused: %lld lanes in the last tile: expected a vector of them or more",
                          static_cast<long long>(last_lanes));
    if (c.row_tiles < 2)
        return make_error(Code::unsupported, "fused: one row tile, nothing reads the copy");
    return {};
}

/// The microkernel of the first row tile where that packs the vector operand for the others.
base::Result<int> add_fused_kernel(Lowering& lowering, const Contraction& c, MicrokernelSpec spec) {
    spec.rows = static_cast<uint8_t>(c.narrow_rows + (c.wide_tiles > 0 ? 1 : 0));
    spec.vectors = 1;
    spec.unroll = kTransposedUnroll;
    spec.vector = VectorForm::transposed;
    spec.packs = 1;
    spec.prefetch = c.ahead ? kAheadLine : 0;
    return kernel_index(lowering.plan, spec);
}

}  // namespace

base::Result<void> finish_contraction(Lowering& lowering, Contraction& c) {
    const Schedule& s = lowering.schedule;
    c.segments = (c.channels + c.segment - 1) / c.segment;
    c.degenerate = lowering.op.alpha == 0 || c.channels == 0 || c.taps == 0;
    if (c.taps == 0) c.scalar.tap_offsets = c.vector.tap_offsets = {0};
    c.tile_lanes = s.vectors * lowering.vector_lanes();
    set_row_tiles(c, c.rows, s.rows);
    c.order = s.order;
    const int64_t lane_tiles = c.all_lane_tiles(c.lanes), row_tiles = c.all_row_tiles();
    c.row_block = s.row_block == 0 ? row_tiles : std::min<int64_t>(s.row_block, row_tiles);
    c.lane_block = s.lane_block == 0 ? lane_tiles : std::min<int64_t>(s.lane_block, lane_tiles);
    // A packed block is reused where the other side's loop runs inside; else the whole side is
    // packed ahead.
    const bool one_row_block = c.row_block >= row_tiles,
               one_lane_block = c.lane_block >= lane_tiles;
    const bool rows_inside = s.order == LoopOrder::lsr || s.order == LoopOrder::slr;
    const bool lanes_inside = s.order == LoopOrder::rsl || s.order == LoopOrder::srl;
    c.vector.whole = !(rows_inside || one_row_block);
    c.scalar.whole = !(lanes_inside || one_lane_block);

    const bool fused = c.vector.source == Source::fused;
    if (fused) WHET_TRY_VOID(check_fused(c, lowering.vector_lanes()));

    // With one tap per panel walk, packed sides need no tap table: the chain is one run of taps *
    // channels.
    c.kernel_taps = c.taps > 1 || c.scalar.tap_offsets[0] != 0 || c.vector.tap_offsets[0] != 0;
    set_tap_tables(c);
    set_uniform_groups(c);
    MicrokernelSpec spec;
    spec.isa = lowering.plan.isa;
    spec.element = lowering.plan.element;
    spec.vectors = s.vectors;
    spec.unroll = s.unroll;
    spec.prefetch = s.prefetch;
    spec.scalar = scalar_form(c);
    spec.vector = c.vector_row_stride != 0              ? VectorForm::row_strided
                  : c.transposed_vector                 ? VectorForm::transposed
                  : c.vector.source == Source::in_place ? VectorForm::strided
                                                        : VectorForm::packed;
    if (c.transposed_vector) spec.unroll = kTransposedUnroll;
    spec.epilogue = static_cast<Epilogue>(lowering.op.epilogue);
    spec.taps = c.kernel_taps ? 1 : 0;
    if (c.kernel_taps && c.channels == 1) {  // a tap is one step
        spec.taps = 2;
        spec.unroll = 1;
        spec.prefetch = 0;
    }
    if (s.prefetch == kScheduleAhead) {
        WHET_TRY(spec.prefetch, prefetch_ahead(c, lowering.plan.element));
    }
    if (fused) {
        WHET_TRY(c.fused_kernel, add_fused_kernel(lowering, c, spec));
    }
    const bool edge = c.lanes % c.tile_lanes != 0 || lowering.nest.strip_rows != 0;
    for (const bool wide : {false, true}) {
        const int64_t first =
            fused && wide == (c.wide_tiles > 0) ? 1 : 0;  // the first tile has its own
        if ((wide ? c.wide_tiles : c.row_tiles - c.wide_tiles) == first) continue;
        spec.rows = static_cast<uint8_t>(c.narrow_rows + (wide ? 1 : 0));
        spec.masked_loads = 0;
        WHET_TRY(c.kernel[wide][0], kernel_index(lowering.plan, spec));
        c.kernel[wide][1] = c.kernel[wide][0];
        // Only the caller's memory ends exactly; scratch and panels are readable for a whole tile.
        if (edge && c.vector.source == Source::in_place && !c.transposed_vector &&
            c.vector.place != Place::image) {
            spec.masked_loads = 1;
            WHET_TRY(c.kernel[wide][1], kernel_index(lowering.plan, spec));
        }
    }
    return {};
}

int64_t packed_elements(const Contraction& c, bool scalar_side) {
    const int64_t depth = c.taps * c.channels;
    return scalar_side ? c.rows * depth : c.lane_tiles(c.lanes) * c.tile_lanes * depth;
}

void lay_out_scratch(Lowering& lowering, int64_t image_elements, int64_t product_elements) {
    Nest& nest = lowering.nest;
    int64_t scalar_elements = 0, vector_elements = 0;
    for (const Contraction& c : nest.contractions) {
        const int64_t block_depth = c.taps * std::min(c.segment, c.channels);
        if (is_copied(c.scalar.source))
            scalar_elements = std::max(
                scalar_elements, c.scalar.whole ? packed_elements(c, true)
                                                : c.row_block * (c.narrow_rows + 1) * block_depth);
        if (is_copied(c.vector.source))
            vector_elements = std::max(vector_elements,
                                       c.vector.whole ? packed_elements(c, false)
                                                      : c.lane_block * c.tile_lanes * block_depth);
    }
    const Element element = lowering.plan.element;
    size_t at = 0;
    nest.image_offset = at;
    at += padded_bytes(image_elements, element);
    nest.product_offset = at;
    at += padded_bytes(product_elements, element);
    nest.scalar_offset = at;
    at += padded_bytes(scalar_elements, element);
    nest.vector_offset = at;
    at += padded_bytes(vector_elements, element);
    lowering.plan.private_bytes = at;
}

void set_frozen_layouts(Lowering& lowering) {
    for (const Contraction& c : lowering.nest.contractions)
        for (const bool scalar_side : {true, false}) {
            const Access& access = scalar_side ? c.scalar : c.vector;
            if (access.source != Source::frozen) continue;
            PackLayout& layout = lowering.plan.frozen[static_cast<int>(access.place)];
            int64_t copies = 1;
            for (int loop = 0; loop < 2; ++loop)
                if (access.packed_outer.stride[loop] != 0)
                    copies *= lowering.nest.outer_extent[loop];
            const int64_t words[] = {scalar_side + 2 * static_cast<int64_t>(lowering.plan.element),
                                     c.taps,
                                     c.channels,
                                     c.segment,
                                     access.axis_stride,
                                     access.channel_stride,
                                     access.base,
                                     access.packed_base,
                                     copies,
                                     scalar_side ? c.rows : c.lanes,
                                     scalar_side ? c.narrow_rows : c.tile_lanes,
                                     scalar_side ? c.wide_tiles : 0,
                                     static_cast<int64_t>(layout.id)};
            uint64_t id = base::hash_bytes(words, sizeof(words));
            id = base::hash_combine(id,
                                    base::hash_bytes(access.tap_offsets.data(),
                                                     access.tap_offsets.size() * sizeof(int64_t)));
            layout.id = id != 0 ? id : 1;
            int64_t end = access.packed_base + packed_elements(c, scalar_side);
            for (int loop = 0; loop < 2; ++loop)
                end += (lowering.nest.outer_extent[loop] - 1) * access.packed_outer.stride[loop];
            layout.bytes =
                std::max(layout.bytes, static_cast<size_t>(end * bytes_of(lowering.plan.element)));
        }
}

base::Result<void> lower_softmax(Lowering& lowering) {
    const whet_op& op = lowering.op;
    for (const int operand : {WHET_DST, WHET_A})
        if (op.operands[operand].extents[1] > 1 && op.operands[operand].strides[1] != 1)
            return make_error(Code::unsupported, "softmax: column stride %lld: expected 1",
                              static_cast<long long>(op.operands[operand].strides[1]));
    if (op.kind != WHET_SOFTMAX) return make_error(Code::unsupported, "row_softmax: not a softmax");
    MicrokernelSpec spec;
    spec.kind = MicrokernelKind::softmax;
    spec.isa = lowering.plan.isa;
    spec.rows = lowering.schedule.rows;
    spec.vectors = 0;
    spec.scalar = ScalarForm{};
    spec.vector = VectorForm{};
    WHET_TRY(lowering.nest.softmax_kernel, kernel_index(lowering.plan, spec));
    const int64_t rows = op.operands[WHET_DST].extents[0];
    lowering.nest.strip_rows =
        lowering.schedule.row_block == 0 ? rows : lowering.schedule.row_block;
    lowering.plan.phases = {{(rows + lowering.nest.strip_rows - 1) / lowering.nest.strip_rows}};
    return {};
}

}  // namespace whet::jit
