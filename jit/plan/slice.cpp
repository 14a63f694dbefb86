// SPDX-License-Identifier: Apache-2.0
// Shares of a call by counting lanes, rows and strips.
#include "jit/plan/slice.hpp"

#include <algorithm>

#include "jit/plan/nest.hpp"

namespace whet::jit {

namespace {

/// Packing an element costs about as much as using it in so many multiply-adds.
constexpr double kUsesPerPacking = 16;

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

double busiest_share(const Plan& plan) noexcept {
    const auto threads = static_cast<int64_t>(plan.op.threads);
    if (threads <= 1) return 1;
    const int64_t tasks = plan.phases.back().task_count;
    double most = 0;
    for (int64_t i = 0; i < threads; ++i)
        most = std::max(most, work_before(plan, tasks * (i + 1) / threads) -
                                  work_before(plan, tasks * i / threads));
    if (ranges_scale(plan)) return most;
    const Contraction& c = plan.nest->contractions.front();
    const bool scalar = c.scalar.source == Source::packed;
    const double uses = static_cast<double>(scalar ? c.lanes : c.rows);
    const double repeated = std::min(1.0, kUsesPerPacking / uses);
    return repeated + (1 - repeated) * most;
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

/// Packing a lane costs about half a cycle a step, a row of the product a thirtieth: so many rows
/// keep it below 2 %.
constexpr int64_t kRowsPerPackedLane = 1024;
// A row block is fetched (or packed) once for all lanes, a lane block once for all rows: with so
// many tiles or blocks of the other axis that hardly shows.
constexpr int64_t kLeastLaneTiles = 6, kLeastBesidePacking = 16, kLeastRowBlocks = 3;

/// Cuts to about `share` of the results; false where a part would not be like the whole.
bool cut(Contraction& c, double share, double position) {
    const int64_t lane_tiles = c.lane_tiles(c.lanes);
    const bool lanes_inside =
        c.order == LoopOrder::rsl || c.order == LoopOrder::rls || c.order == LoopOrder::srl;
    const bool row_blocks = c.row_block < c.row_tiles, lane_blocks = c.lane_block < lane_tiles;
    const bool packs_rows = c.scalar.source == Source::packed;
    const bool packs_lanes = is_copied(c.vector.source);
    const int64_t full_blocks = c.row_tiles / c.row_block;
    if (row_blocks && (lanes_inside || !lane_blocks) && !packs_lanes &&
        !(packs_rows && c.scalar.whole)) {
        const double blocks = static_cast<double>(c.row_tiles) / static_cast<double>(c.row_block);
        const int64_t count = tiles_for(share * blocks, lane_tiles,
                                        packs_rows ? kLeastBesidePacking : kLeastLaneTiles);
        cut_rows(c, place_for(1, full_blocks, position) * c.row_block, c.row_block);
        cut_lanes(c, place_for(count, lane_tiles, position), count);
        return true;
    }
    if (row_blocks && lane_blocks && !packs_lanes && !packs_rows) {
        const double columns = static_cast<double>(lane_tiles) / static_cast<double>(c.lane_block);
        const int64_t count = tiles_for(share * columns, full_blocks, kLeastRowBlocks);
        cut_rows(c, place_for(count, full_blocks, position) * c.row_block, count * c.row_block);
        cut_lanes(c, place_for(1, lane_tiles / c.lane_block, position) * c.lane_block,
                  c.lane_block);
        return true;
    }
    // A packed block keeps its size, which decides where it stays.
    if (packs_lanes && c.vector.whole) return false;
    int64_t least_lanes = packs_rows ? kLeastBesidePacking : 1;
    if (packs_lanes) least_lanes = std::max(least_lanes, c.lane_block);
    if (lane_tiles > least_lanes) {
        const int64_t count = tiles_for(share, lane_tiles, least_lanes);
        cut_lanes(c, place_for(count, lane_tiles, position), count);
        const double kept = static_cast<double>(count) / static_cast<double>(lane_tiles);
        if (kept <= 2 * share) return true;
        const int64_t rows = tiles_for(share / kept, c.row_tiles,
                                       packs_lanes ? kRowsPerPackedLane / c.narrow_rows : 1);
        // The first row tile packs for the others: its share of them stays.
        if (rows < c.row_tiles && c.vector.source != Source::fused)
            cut_rows(c, place_for(rows, c.row_tiles, position), rows);
        return true;
    }
    if (packs_lanes || packs_rows || c.row_tiles < 2) return false;
    const int64_t count = tiles_for(share, c.row_tiles, 1);
    cut_rows(c, place_for(count, c.row_tiles, position), count);
    return true;
}

}  // namespace

std::optional<PartialPlan> part_of(const Plan& plan, double share, double position) {
    if (plan.schedule.structure != Structure::matmul || plan.nest->contractions.front().degenerate)
        return std::nullopt;
    auto nest = std::make_shared<Nest>(*plan.nest);
    Contraction& c = nest->contractions.front();
    const int64_t results = c.rows * c.lanes;
    if (!cut(c, share, position)) return std::nullopt;
    if (c.order == LoopOrder::lsr || c.order == LoopOrder::lrs)
        nest->tasks_per_outer = (c.lane_tiles(c.lanes) + c.lane_block - 1) / c.lane_block;
    if (c.order == LoopOrder::rsl || c.order == LoopOrder::rls)
        nest->tasks_per_outer = (c.row_tiles + c.row_block - 1) / c.row_block;
    PartialPlan part{plan, static_cast<double>(c.rows * c.lanes) / static_cast<double>(results)};
    part.plan.phases = {{nest->outer_extent[0] * nest->tasks_per_outer}};
    part.plan.nest = std::move(nest);
    return part;
}

}  // namespace whet::jit
