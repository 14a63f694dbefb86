// SPDX-License-Identifier: Apache-2.0
// Shares of a call by counting lanes, rows and strips.
#include "jit/plan/slice.hpp"

#include <algorithm>

#include "jit/plan/nest.hpp"

namespace whet::jit {

namespace {

double share(int64_t part, int64_t whole) {
    return whole == 0 ? 1 : static_cast<double>(std::min(part, whole)) / static_cast<double>(whole);
}

/// Of one (batch, group, strip): the share that the first `blocks` iterations of the outermost
/// block loop compute.
double share_of_blocks(const Contraction& c, int64_t blocks) {
    if (c.order == LoopOrder::lsr || c.order == LoopOrder::lrs)
        return share(blocks * c.lane_block * c.tile_lanes, c.lanes);
    return share(c.rows_before(std::min(c.row_tiles, blocks * c.row_block)), c.rows);
}

}  // namespace

double work_before(const Plan& plan, int64_t task) noexcept {
    const Nest& nest = *plan.nest;
    if (nest.softmax_kernel >= 0)
        return share(task * nest.strip_rows, plan.op.operands[WHET_DST].extents[0]);
    const int64_t outer = task / nest.tasks_per_outer, blocks = task % nest.tasks_per_outer;
    const int64_t strips = nest.outer_extent[2],
                  images = nest.outer_extent[0] * nest.outer_extent[1];
    if (nest.tasks_per_outer > 1)
        return (static_cast<double>(outer) +
                (blocks == 0 ? 0 : share_of_blocks(nest.contractions.front(), blocks))) /
               static_cast<double>(images * strips);
    if (nest.strip_rows == 0) return share(outer, images * strips);
    // Output phases are interleaved, and the last may be short.
    const bool phases = nest.unpack.kind == UnpackKind::phases;
    const int64_t rows = outer % strips * nest.strip_rows * (phases ? nest.unpack.phase_rows : 1);
    return (static_cast<double>(outer / strips) +
            share(rows, phases ? nest.unpack.rows : nest.output_rows)) /
           static_cast<double>(images);
}

bool ranges_scale(const Plan& plan) noexcept {
    const Nest& nest = *plan.nest;
    if (nest.softmax_kernel >= 0 || nest.tasks_per_outer == 1) return true;
    const Contraction& c = nest.contractions.front();
    // Without another row block or segment in between, one packed block serves all tasks.
    const bool lanes_first = c.order == LoopOrder::lsr || c.order == LoopOrder::lrs;
    const bool one_row_block = c.row_block >= c.all_row_tiles(),
               one_lane_block = c.lane_block >= c.lane_tiles(c.lanes);
    const bool shared_scalar = c.scalar.whole || (lanes_first && one_row_block && c.segments == 1);
    const bool shared_vector =
        c.vector.whole || (!lanes_first && one_lane_block && c.segments == 1);
    return !(c.scalar.source == Source::packed && shared_scalar) &&
           !(c.vector.source == Source::packed && shared_vector);
}

namespace {

/// Keeps `count` lane tiles from tile `first`.
void cut_lanes(Contraction& c, int64_t first, int64_t count) {
    const int64_t at = first * c.tile_lanes;
    c.lanes = std::min(c.lanes, at + count * c.tile_lanes) - at;
    c.lane_block = std::min(c.lane_block, count);
    c.dst_base += at;
    c.vector.base += at * c.vector.axis_stride;
    c.vector.packed_base += at * c.taps * c.channels;
    if (c.bias_axis == BiasAxis::lane) c.bias_base += at;
}

/// Keeps `count` row tiles from tile `first`.
void cut_rows(Contraction& c, int64_t first, int64_t count) {
    const int64_t at = c.rows_before(first);
    c.rows = c.rows_before(first + count) - at;
    c.row_tiles = count;
    c.wide_tiles = std::clamp<int64_t>(c.wide_tiles - first, 0, count);
    c.row_block = std::min(c.row_block, count);
    c.dst_base += at * c.dst_row;
    c.scalar.base += at * c.scalar.axis_stride;
    c.scalar.packed_base += at * c.taps * c.channels;
    if (c.bias_axis == BiasAxis::row) c.bias_base += at;
}

/// A place among `tiles` for `count` of them.
int64_t place_for(int64_t count, int64_t tiles, double position) {
    return std::min(tiles - count,
                    static_cast<int64_t>(position * static_cast<double>(tiles - count + 1)));
}

/// So many of `tiles` as are `share` of them, at least `least`.
int64_t tiles_for(double share, int64_t tiles, int64_t least) {
    return std::clamp(static_cast<int64_t>(share * static_cast<double>(tiles) + 0.5),
                      std::min(least, tiles), tiles);
}

}  // namespace

namespace {

/// Packing a lane costs about half a cycle a step, a row of the product a thirtieth: so many rows
/// keep it below 2 %.
constexpr int64_t kRowsPerPackedLane = 1024;

/// Keeps `count` tiles from the first at `position` of the lanes or rows; returns the share kept.
double cut(Contraction& c, bool along_lanes, int64_t count, double position) {
    const int64_t tiles = along_lanes ? c.lane_tiles(c.lanes) : c.row_tiles;
    count = std::clamp<int64_t>(count, 1, tiles);
    const auto first = std::min(
        tiles - count, static_cast<int64_t>(position * static_cast<double>(tiles - count + 1)));
    const int64_t all = along_lanes ? c.lanes : c.rows;
    int64_t at = 0;
    Access& side = along_lanes ? c.vector : c.scalar;
    if (along_lanes) {
        at = first * c.tile_lanes;
        c.lanes = std::min(c.lanes, at + count * c.tile_lanes) - at;
        c.lane_block = std::min(c.lane_block, count);
        c.dst_base += at;
    } else {
        at = c.rows_before(first);
        c.rows = c.rows_before(first + count) - at;
        c.row_tiles = count;
        c.wide_tiles = std::clamp<int64_t>(c.wide_tiles - first, 0, count);
        c.row_block = std::min(c.row_block, count);
        c.dst_base += at * c.dst_row;
    }
    side.base += at * side.axis_stride;
    side.packed_base += at * c.taps * c.channels;
    if (c.bias_axis == (along_lanes ? BiasAxis::lane : BiasAxis::row)) c.bias_base += at;
    return static_cast<double>(along_lanes ? c.lanes : c.rows) / static_cast<double>(all);
}

int64_t tiles_of(double share, int64_t tiles) {
    return static_cast<int64_t>(share * static_cast<double>(tiles) + 0.5);
}

}  // namespace

std::optional<PartialPlan> part_of(const Plan& plan, double share, double position) {
    if (plan.schedule.structure != Structure::matmul || plan.nest->contractions.front().degenerate)
        return std::nullopt;
    auto nest = std::make_shared<Nest>(*plan.nest);
    Contraction& c = nest->contractions.front();
    const bool packed_rows = c.scalar.source == Source::packed;
    const bool packed_lanes = c.vector.source == Source::packed;
    const int64_t lane_tiles = c.lane_tiles(c.lanes);
    const bool along_lanes = !packed_rows && lane_tiles > 1;
    if (!along_lanes && (packed_lanes || c.row_tiles < 2)) return std::nullopt;
    double kept =
        cut(c, along_lanes, tiles_of(share, along_lanes ? lane_tiles : c.row_tiles), position);
    if (along_lanes && kept > 2 * share) {
        const int64_t least = packed_lanes ? kRowsPerPackedLane / c.narrow_rows : 1;
        const int64_t wanted = std::max(tiles_of(share / kept, c.row_tiles), least);
        if (wanted < c.row_tiles) kept *= cut(c, false, wanted, position);
    }
    if (c.order == LoopOrder::lsr || c.order == LoopOrder::lrs)
        nest->tasks_per_outer = (c.lane_tiles(c.lanes) + c.lane_block - 1) / c.lane_block;
    if (c.order == LoopOrder::rsl || c.order == LoopOrder::rls)
        nest->tasks_per_outer = (c.row_tiles + c.row_block - 1) / c.row_block;
    PartialPlan part{plan, kept};
    part.plan.phases = {{nest->outer_extent[0] * nest->tasks_per_outer}};
    part.plan.nest = std::move(nest);
    return part;
}

}  // namespace whet::jit
