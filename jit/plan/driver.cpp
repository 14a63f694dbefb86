// SPDX-License-Identifier: Apache-2.0
// Runs plans: the one interpreter of nests. Everything it does is addresses and counts; arithmetic
// is in microkernels.
#include <algorithm>
#include <cmath>

#include "jit/plan/nest.hpp"
#include "jit/plan/pack.hpp"
#include "jit/plan/plan.hpp"
#include "jit/portable.hpp"

namespace whet::jit {

namespace {

int64_t along(const OuterStrides& strides, const int64_t* outer) {
    return strides.stride[0] * outer[0] + strides.stride[1] * outer[1] +
           strides.stride[2] * outer[2];
}

/// What one call of run_phase knows.
struct Context {
    const Plan& plan;
    const Nest& nest;
    const MicrokernelFunction* functions;
    const Operands& operands;
    std::byte* scratch;

    template <typename T>
    T* place(Place which) const {
        if (which == Place::image) return reinterpret_cast<T*>(scratch + nest.image_offset);
        if (which == Place::product) return reinterpret_cast<T*>(scratch + nest.product_offset);
        return static_cast<T*>(operands.data[static_cast<int>(which)]);
    }
    void call(int kernel, const void* args) const {
        if (functions != nullptr)
            functions[kernel](args);
        else
            run_portable(plan.kernels[kernel], args);
    }
};

int64_t segment_channels(const Contraction& c, int64_t segment) {
    return std::min(c.segment, c.channels - segment * c.segment);
}
int64_t rows_of(const Contraction& c, int64_t tile) {
    return c.narrow_rows + (tile < c.wide_tiles ? 1 : 0);
}

/// Where panels go: `dst` is the first packed tile's panel, a panel is `depth` deep, the segment
/// starts at `offset`.
template <typename T>
struct PanelTarget {
    T* dst;
    int64_t depth;
    int64_t offset;
};

/// Packs row tiles [first, last) of one segment.
template <typename T>
void pack_scalar(const Contraction& c, const T* source, int64_t first, int64_t last,
                 int64_t segment, const PanelTarget<T>& target, Isa isa) {
    const Access& a = c.scalar;
    for (int64_t tile = first; tile < last;) {
        const int64_t end = tile < c.wide_tiles ? std::min(last, c.wide_tiles) : last;
        const int64_t width = rows_of(c, tile), row = c.rows_before(tile);
        copy_panels(
            PanelCopyOf<T>{
                source + row * a.axis_stride + segment * c.segment * a.channel_stride,
                target.dst + (row - c.rows_before(first)) * target.depth + target.offset * width,
                (end - tile) * width, width, segment_channels(c, segment), a.axis_stride,
                a.channel_stride, a.tap_offsets.data(), c.taps, target.depth * width},
            isa);
        tile = end;
    }
}

/// One block of lane tiles in one segment.
struct LaneBlock {
    int64_t first = 0, segment = 0;
};

/// Packs lane tiles [first, last) of one segment; `lanes` is the extent. next: the block that is
/// packed after it, if any.
template <typename T>
void pack_vector(const Contraction& c, const T* source, int64_t lanes, int64_t first, int64_t last,
                 int64_t segment, const PanelTarget<T>& target, const LaneBlock* next, Isa isa) {
    const Access& a = c.vector;
    const int64_t lane = first * c.tile_lanes;
    const auto source_of = [&](int64_t tile, int64_t s) {
        return source + tile * c.tile_lanes * a.axis_stride + s * c.segment * a.channel_stride;
    };
    const bool whole_tile = next != nullptr && (next->first + 1) * c.tile_lanes <= lanes;
    copy_panels(PanelCopyOf<T>{source_of(first, segment), target.dst + target.offset * c.tile_lanes,
                               std::min(lanes, last * c.tile_lanes) - lane, c.tile_lanes,
                               segment_channels(c, segment), a.axis_stride, a.channel_stride,
                               a.tap_offsets.data(), c.taps, target.depth * c.tile_lanes,
                               whole_tile ? source_of(next->first, next->segment) : nullptr,
                               whole_tile ? segment_channels(c, next->segment) : 0},
                isa);
}

/// Packs a whole side: every segment of every tile.
template <typename T>
void pack_whole(const Contraction& c, bool scalar_side, const T* source, int64_t lanes, T* dst,
                Isa isa) {
    for (int64_t s = 0; s < c.segments; ++s) {
        const PanelTarget<T> target{dst, c.taps * c.channels, s * c.segment * c.taps};
        if (scalar_side)
            pack_scalar(c, source, 0, c.row_tiles, s, target, isa);
        else
            pack_vector(c, source, lanes, 0, c.lane_tiles(lanes), s, target, nullptr, isa);
    }
}

/// One contraction at one (batch, group, strip): bases resolved, block loops still to run.
template <typename T>
class ContractionRun {
public:
    ContractionRun(const Context& context, const Contraction& c, const int64_t* outer,
                   int64_t lanes)
        : context_(context),
          c_(c),
          lanes_(lanes),
          alpha_(static_cast<T>(context.plan.op.alpha)),
          beta_(static_cast<T>(context.plan.op.beta)) {
        scalar_ = source_of(c.scalar, outer, context.nest.scalar_offset);
        vector_ = source_of(c.vector, outer, context.nest.vector_offset);
        dst_ = context.place<T>(c.dst_place) + c.dst_base + along(c.dst_outer, outer);
        bias_ = c.bias_axis == BiasAxis::none
                    ? nullptr
                    : static_cast<const T*>(context.operands.data[WHET_BIAS]) + c.bias_base +
                          along(c.bias_outer, outer);
        const Isa isa = context.plan.isa;
        if (c.scalar.source == Source::packed && c.scalar.whole)
            pack_whole(c, true, scalar_.place, lanes, scalar_.scratch, isa);
        if (c.vector.source == Source::packed && c.vector.whole)
            pack_whole(c, false, vector_.place, lanes, vector_.scratch, isa);
    }

    int64_t row_blocks() const { return (c_.all_row_tiles() + c_.row_block - 1) / c_.row_block; }
    int64_t lane_blocks() const {
        return (c_.all_lane_tiles(lanes_) + c_.lane_block - 1) / c_.lane_block;
    }
    /// Iterations of the outermost loop.
    int64_t outermost() const { return count_of(loop_axis(0)); }

    /// Runs iterations [first, last) of the outermost block loop, everything inside.
    void run(int64_t first, int64_t last) {
        int64_t index[3] = {0, 0, 0};
        const int a0 = loop_axis(0), a1 = loop_axis(1), a2 = loop_axis(2);
        for (index[a0] = first; index[a0] < last; ++index[a0])
            for (index[a1] = 0; index[a1] < count_of(a1); ++index[a1])
                for (index[a2] = 0; index[a2] < count_of(a2); ++index[a2]) {
                    if (c_.ahead) find_next_panel(index, last);
                    block(index[0], index[1], index[2]);
                }
    }

private:
    enum AxisIndex { kRow = 0, kLane = 1, kSegment = 2 };

    struct SideSource {
        const T* place = nullptr;   // in place
        const T* packed = nullptr;  // whole panels
        T* scratch = nullptr;       // where per-call panels go
    };

    SideSource source_of(const Access& access, const int64_t* outer, size_t scratch_offset) const {
        SideSource side;
        if (access.source != Source::frozen)
            side.place = context_.place<T>(access.place) + access.base + along(access.outer, outer);
        if (access.source == Source::frozen)
            side.packed =
                static_cast<const T*>(context_.operands.packed[static_cast<int>(access.place)]) +
                access.packed_base + along(access.packed_outer, outer);
        side.scratch = reinterpret_cast<T*>(context_.scratch + scratch_offset);
        if (access.source == Source::packed && access.whole) side.packed = side.scratch;
        return side;
    }

    int loop_axis(int depth) const {
        static constexpr int8_t kAxes[][3] = {{kLane, kSegment, kRow}, {kSegment, kLane, kRow},
                                              {kRow, kSegment, kLane}, {kSegment, kRow, kLane},
                                              {kLane, kRow, kSegment}, {kRow, kLane, kSegment}};
        return kAxes[static_cast<int>(c_.order)][depth];
    }
    int64_t count_of(int axis) const {
        return axis == kRow ? row_blocks() : axis == kLane ? lane_blocks() : c_.segments;
    }

    /// The lane tile that row tiles meet, and the segment.
    struct LaneTile {
        const GroupOffset& group;
        int64_t lane;        // in its group
        int64_t block_lane;  // first lane of the packed block
        int64_t segment;
        int64_t first_row;         // first row tile of the block
        const T* ahead = nullptr;  // where the row tiles' prefetches start; null: nothing to fetch
        int64_t ahead_step = 0;    // bytes a reduction step
        const T* next = nullptr;   // what a fused operand's first reader comes to next
        int64_t first_lane = 0;    // stored; those before it belong to the tile before
    };

    int64_t depth() const { return c_.taps * c_.channels; }

    /// Where a vector of a transposed operand begins that holds lane `lane` first, or, at the end,
    /// the last lanes.
    int64_t within_lanes(int64_t lane) const {
        return std::min(lane, lanes_ - lanes_of(context_.plan.isa, context_.plan.element));
    }
    /// What lane tile `tile` reads of the vector operand: a panel packed ahead, or rows in place.
    const T* lane_tile_at(int64_t tile, int64_t segment) const {
        const int64_t per_group = c_.lane_tiles(lanes_);
        if (c_.reads_transposed())
            return vector_.place + within_lanes(tile * c_.tile_lanes) * c_.vector.axis_stride +
                   segment * c_.segment * c_.vector.channel_stride;
        return vector_.packed + tile % per_group * c_.tile_lanes * depth() +
               segment * c_.segment * c_.taps * c_.tile_lanes +
               c_.lane_groups[static_cast<size_t>(tile / per_group)].vector;
    }
    /// Notes the first panel of the block after `index`; of the outermost loop, iterations from
    /// `last` on are not ours.
    void find_next_panel(const int64_t* index, int64_t last) {
        int64_t next[3] = {index[0], index[1], index[2]};
        next_panel_ = nullptr;
        for (int level = 2; level >= 0; --level) {
            const int axis = loop_axis(level);
            if (++next[axis] < (level == 0 ? last : count_of(axis))) {
                const bool same = next[kLane] == index[kLane] && next[kSegment] == index[kSegment];
                const int64_t left = c_.all_lane_tiles(lanes_) - index[kLane] * c_.lane_block;
                if (same && std::min(left, c_.lane_block) == 1) return;  // the panel at hand
                next_panel_ = lane_tile_at(next[kLane] * c_.lane_block, next[kSegment]);
                next_depth_ = c_.taps * segment_channels(c_, next[kSegment]);
                return;
            }
            next[axis] = 0;
        }
    }
    /// The panel that `tiles` row tiles fetch while they use lane tile `tile`, in equal parts.
    void set_ahead(LaneTile& lane, int64_t tile, int64_t end_lane, int64_t tiles) const {
        const int64_t k = c_.taps * segment_channels(c_, lane.segment);
        const bool inside = tile + 1 < end_lane;
        lane.ahead = inside ? lane_tile_at(tile + 1, lane.segment) : next_panel_;
        if (lane.ahead == nullptr || c_.transposed_vector) return;
        const int64_t bytes =
            (inside ? k : next_depth_) * c_.tile_lanes * static_cast<int64_t>(sizeof(T));
        lane.ahead_step = std::min(c_.most_ahead_step, (bytes + tiles * k - 1) / (tiles * k));
    }

    /// The rows of the next lane block, which the readers of this one fetch as one run, and where
    /// that stands.
    void set_ahead_of_fused(LaneTile& lane, int64_t tile, int64_t first_lane, int64_t end_lane,
                            int64_t end_row) const {
        lane.next = tile + 1 < end_lane ? lane_tile_at(tile + 1, lane.segment) : next_panel_;
        const int64_t here = end_lane - first_lane;
        const int64_t following = std::min(c_.all_lane_tiles(lanes_) - end_lane, c_.lane_block);
        if (c_.most_ahead_step == 0 || following == 0) return;
        const bool first_block = lane.first_row == 0;
        const int64_t readers = c_.all_row_tiles() - 1, k = segment_channels(c_, lane.segment);
        const int64_t rows_before = first_block ? 0 : lane.first_row - 1;
        const int64_t rows_here = end_row - lane.first_row - (first_block ? 1 : 0);
        const int64_t steps = here * (readers * lane.segment * c_.segment + rows_before * k) +
                              (tile - first_lane) * rows_here * k;
        const int64_t bytes = following * c_.tile_lanes * static_cast<int64_t>(sizeof(T));
        lane.ahead_step =
            std::min(c_.most_ahead_step, (bytes + readers * here - 1) / (readers * here));
        lane.ahead = lane_tile_at(end_lane, 0) + (steps - (first_block ? k : 0)) * lane.ahead_step /
                                                     static_cast<int64_t>(sizeof(T));
    }

    /// The block of lanes that the loops come to after this one; past the last tile: none. (Each
    /// sweep over the rows begins at the first block again; that is not looked ahead.)
    LaneBlock next_lane_block(int64_t lane_block, int64_t segment) const {
        bool segment_inside = false;
        for (int depth = 0; depth < 3; ++depth) {
            if (loop_axis(depth) == kLane) segment_inside = true;
            if (loop_axis(depth) == kSegment) break;
        }
        const bool next_segment = segment_inside && segment + 1 < c_.segments;
        const bool last_lane = lane_block + 1 >= lane_blocks();
        if (next_segment) return {lane_block * c_.lane_block, segment + 1};
        if (segment_inside) return {(lane_block + 1) * c_.lane_block, 0};
        if (last_lane && segment + 1 < c_.segments) return {0, segment + 1};
        return {(lane_block + 1) * c_.lane_block, segment};
    }

    /// One (row block, lane block, segment): packs what has changed, then the tiles.
    void block(int64_t row_block, int64_t lane_block, int64_t segment) {
        const int64_t first_row = row_block * c_.row_block, first_lane = lane_block * c_.lane_block;
        const int64_t end_row = std::min(c_.all_row_tiles(), first_row + c_.row_block);
        const int64_t end_lane = std::min(c_.all_lane_tiles(lanes_), first_lane + c_.lane_block);
        const int64_t block_depth = c_.taps * segment_channels(c_, segment);
        const Isa isa = context_.plan.isa;
        if (c_.scalar.source == Source::packed && !c_.scalar.whole &&
            (packed_scalar_[0] != row_block || packed_scalar_[1] != segment)) {
            pack_scalar(c_, scalar_.place, first_row, end_row, segment,
                        {scalar_.scratch, block_depth, 0}, isa);
            packed_scalar_[0] = row_block;
            packed_scalar_[1] = segment;
        }
        if (c_.vector.source == Source::packed && !c_.vector.whole &&
            (packed_vector_[0] != lane_block || packed_vector_[1] != segment)) {
            const LaneBlock next = next_lane_block(lane_block, segment);
            const bool more = next.first < c_.all_lane_tiles(lanes_);
            pack_vector(c_, vector_.place, lanes_, first_lane, end_lane, segment,
                        {vector_.scratch, block_depth, 0}, more ? &next : nullptr, isa);
            packed_vector_[0] = lane_block;
            packed_vector_[1] = segment;
        }
        const bool fused = c_.vector.source == Source::fused;
        const bool fresh =
            fused && (packed_vector_[0] != lane_block || packed_vector_[1] != segment);
        if (fresh) {
            packed_vector_[0] = lane_block;
            packed_vector_[1] = segment;
        }
        const int64_t tiles_per_group = c_.lane_tiles(lanes_);
        for (int64_t tile = first_lane; tile < end_lane; ++tile) {
            LaneTile lane{c_.lane_groups[static_cast<size_t>(tile / tiles_per_group)],
                          tile % tiles_per_group * c_.tile_lanes, first_lane * c_.tile_lanes,
                          segment, first_row};
            if (c_.transposed_vector) move_within_lanes(lane);
            if (fused && c_.ahead)
                set_ahead_of_fused(lane, tile, first_lane, end_lane, end_row);
            else if (c_.ahead)
                set_ahead(lane, tile, end_lane, end_row - first_row);
            if (fresh) fused_tile(lane);
            if (c_.uniform_row_groups) {
                tiles(first_row, 0, end_row - first_row, 0, lane);
                continue;
            }
            for (int64_t row = first_row + (fresh ? 1 : 0); row < end_row;) {
                const int64_t group = row / c_.row_tiles, begin = row % c_.row_tiles;
                const int64_t end = std::min(c_.row_tiles, begin + (end_row - row));
                if (begin < c_.wide_tiles)
                    tiles(group, begin, std::min(end, c_.wide_tiles) - begin, first_row, lane);
                const int64_t narrow = std::max(begin, c_.wide_tiles);
                if (end > narrow) tiles(group, narrow, end - narrow, first_row, lane);
                row += end - begin;
            }
        }
    }

    void move_within_lanes(LaneTile& at) const {
        at.first_lane = at.lane - within_lanes(at.lane);
        at.lane -= at.first_lane;
    }

    /// The prefetches of a call share out a run of `step` bytes for each of its reduction steps.
    static void set_streams(TileArgsOf<T>& args, int64_t step) {
        constexpr int64_t kLine = 64;
        const int64_t turns = args.tiles * (args.k / kAheadStreams);
        args.ahead_stream = turns * step / kLine * kLine;
        args.ahead_return = step - (kAheadStreams - 1) * args.ahead_stream;
    }

    /// The first row tile of a fused operand: vector by vector of the lane tile, each with its
    /// columns of the panel.
    void fused_tile(const LaneTile& at) const {
        const int64_t lanes = lanes_of(context_.plan.isa, context_.plan.element),
                      k = segment_channels(c_, at.segment);
        T uniform[1];
        for (int64_t v = 0; v < c_.tile_lanes && at.lane + v < lanes_; v += lanes) {
            LaneTile piece = at;
            piece.lane += v;
            piece.ahead = nullptr;
            move_within_lanes(piece);
            TileArgsOf<T> args = tile_args(0, 0, 1, 0, piece, uniform);
            args.lanes = lanes;
            args.vector = vector_.place + piece.lane * c_.vector.axis_stride +
                          at.segment * c_.segment * c_.vector.channel_stride;
            args.vector_row = c_.vector.axis_stride;
            // Lanes that the vector before stored are stored again, the same.
            args.panel = vector_.scratch + (at.lane - at.block_lane) * k + v - piece.first_lane;
            args.panel_k = c_.tile_lanes;
            const bool more = v + lanes < c_.tile_lanes && piece.lane + lanes < lanes_;
            args.ahead = more ? args.vector + (within_lanes(piece.lane + lanes) - piece.lane) *
                                                  c_.vector.axis_stride
                         : at.next != nullptr ? at.next
                                              : args.vector;
            context_.call(c_.fused_kernel, &args);
        }
    }

    /// `count` row tiles of one width from tile `first` of group `group`; where groups are uniform,
    /// one tile of each of `count` groups.
    void tiles(int64_t group, int64_t first, int64_t count, int64_t block_row,
               const LaneTile& at) const {
        T uniform[kMaxTileRows * kMaxFold];
        const TileArgsOf<T> args = tile_args(group, first, count, block_row, at, uniform);
        const bool edge = args.lanes < c_.tile_lanes;
        context_.call(c_.kernel[first < c_.wide_tiles ? 1 : 0][edge ? 1 : 0], &args);
    }

    /// The arguments of such tiles; `uniform` holds the bias of every row where a group has one
    /// value.
    TileArgsOf<T> tile_args(int64_t group, int64_t first, int64_t count, int64_t block_row,
                            const LaneTile& at, T* uniform) const {
        const bool wide = first < c_.wide_tiles, last_segment = at.segment + 1 == c_.segments;
        const int64_t width = rows_of(c_, first), row = c_.rows_before(first);
        const int64_t k = segment_channels(c_, at.segment);
        const GroupOffset& rows = c_.row_groups[static_cast<size_t>(group)];
        TileArgsOf<T> args;
        args.k = k;
        args.taps = c_.taps;
        args.tiles = count;
        args.lanes = std::min<int64_t>(c_.tile_lanes, lanes_ - at.lane);
        args.first_lane = at.first_lane;
        address_scalar(args, block_row, width, row, at.segment, k);
        address_vector(args, row, width, at, k);
        args.scalar += rows.scalar + at.group.scalar;
        args.vector += rows.vector + at.group.vector;
        args.tap_offsets = c_.tap_table[last_segment][wide].data();
        args.dst = dst_ + row * c_.dst_row + at.lane + rows.dst + at.group.dst;
        args.dst_row = c_.dst_row;
        args.dst_tile = width * c_.dst_row;
        if (c_.uniform_row_groups && c_.row_groups.size() > 1) {
            args.scalar_tile = c_.row_groups[1].scalar;
            args.vector_tile = c_.row_groups[1].vector;
            args.dst_tile = c_.row_groups[1].dst;
        }
        args.bias = bias_;
        args.bias_tile = 0;
        if (c_.bias_axis == BiasAxis::lane) args.bias = bias_ + at.lane;
        if (c_.bias_axis == BiasAxis::row) {
            args.bias = bias_ + row;
            args.bias_tile = width;
        }
        if (c_.bias_axis == BiasAxis::uniform) {
            const int64_t values = c_.uniform_row_groups ? count : 1;
            for (int64_t i = 0; i < values; ++i)
                std::fill_n(uniform + i * width, width, bias_[group + i]);
            args.bias = uniform;
            args.bias_tile = c_.uniform_row_groups ? width : 0;
        }
        args.start = at.segment > 0 ? kStartDst : first_start();
        args.finish = last_segment ? 1 : 0;
        args.alpha = alpha_;
        args.beta = beta_;
        args.ahead = args.vector;  // nothing to fetch: what is at hand anyway
        args.ahead_stream = args.ahead_return = 0;
        args.panel = nullptr;
        args.panel_k = 0;
        if (at.ahead != nullptr) {
            const int64_t before = group * c_.row_tiles + first - at.first_row;
            args.ahead =
                at.ahead + before * c_.taps * k * at.ahead_step / static_cast<int64_t>(sizeof(T));
            set_streams(args, at.ahead_step);
        }
        return args;
    }

    void address_scalar(TileArgsOf<T>& args, int64_t block_row, int64_t width, int64_t row,
                        int64_t segment, int64_t k) const {
        const Access& a = c_.scalar;
        args.scalar_row = a.axis_stride;
        args.scalar_k = a.channel_stride;
        args.scalar_tile = width * a.axis_stride;
        if (a.source == Source::in_place) {
            args.scalar =
                scalar_.place + row * a.axis_stride + segment * c_.segment * a.channel_stride;
            return;
        }
        const bool whole = a.source == Source::frozen || a.whole;
        const int64_t panel_depth = whole ? depth() : c_.taps * k;
        const int64_t base_row = whole ? 0 : c_.rows_before(block_row);
        const int64_t offset = whole ? segment * c_.segment * c_.taps : 0;
        args.scalar = (whole ? scalar_.packed : scalar_.scratch) + (row - base_row) * panel_depth +
                      offset * width;
        args.scalar_row = 1;
        args.scalar_k = width;
        args.scalar_tile = panel_depth * width;
    }
    void address_vector(TileArgsOf<T>& args, int64_t row, int64_t width, const LaneTile& at,
                        int64_t k) const {
        const Access& a = c_.vector;
        args.vector_row = c_.vector_row_stride;
        args.vector_tile = c_.vector_row_stride * width;
        args.vector_k = a.channel_stride;
        if (a.source == Source::in_place) {
            const int64_t along_lanes = c_.transposed_vector ? a.axis_stride : 1;
            args.vector = vector_.place + at.lane * along_lanes +
                          at.segment * c_.segment * a.channel_stride + row * c_.vector_row_stride;
            if (c_.transposed_vector) args.vector_row = a.axis_stride;
            return;
        }
        const bool whole = a.source == Source::frozen || a.whole;
        const int64_t panel_depth = whole ? depth() : c_.taps * k;
        const int64_t base_lane = whole ? 0 : at.block_lane;
        const int64_t offset = whole ? at.segment * c_.segment * c_.taps : 0;
        args.vector = (whole ? vector_.packed : vector_.scratch) +
                      (at.lane - base_lane) * panel_depth + offset * c_.tile_lanes;
        args.vector_k = c_.tile_lanes;
    }
    int64_t first_start() const {
        if (c_.bias_axis == BiasAxis::lane) return kStartBiasLane;
        if (c_.bias_axis != BiasAxis::none) return kStartBiasRow;
        return beta_ == 0 ? kStartZero : beta_ == 1 ? kStartDst : kStartScaled;
    }

    const Context& context_;
    const Contraction& c_;
    int64_t lanes_;
    T alpha_, beta_;
    SideSource scalar_, vector_;
    T* dst_;
    const T* bias_;
    int64_t packed_scalar_[2] = {-1, -1};
    int64_t packed_vector_[2] = {-1, -1};
    const T* next_panel_ = nullptr;
    int64_t next_depth_ = 0;
};

/// No products: dst = epilogue(start), element by element.
template <typename T>
void run_degenerate(const Context& context, const Contraction& c, const int64_t* outer,
                    int64_t lanes) {
    const whet_op& op = context.plan.op;
    T* dst = context.place<T>(c.dst_place) + c.dst_base + along(c.dst_outer, outer);
    const T* bias = c.bias_axis == BiasAxis::none
                        ? nullptr
                        : static_cast<const T*>(context.operands.data[WHET_BIAS]) + c.bias_base +
                              along(c.bias_outer, outer);
    for (size_t row_group = 0; row_group < c.row_groups.size(); ++row_group)
        for (const GroupOffset& lane_group : c.lane_groups)
            for (int64_t r = 0; r < c.rows; ++r)
                for (int64_t l = 0; l < lanes; ++l) {
                    T& element =
                        dst[c.row_groups[row_group].dst + lane_group.dst + r * c.dst_row + l];
                    T value = 0;
                    if (c.bias_axis == BiasAxis::lane)
                        value = bias[l];
                    else if (c.bias_axis == BiasAxis::row)
                        value = bias[r];
                    else if (c.bias_axis == BiasAxis::uniform)
                        value = bias[row_group];
                    else if (op.beta == 1)
                        value = element;
                    else if (op.beta != 0)
                        value = static_cast<T>(op.beta) * element;
                    element = op.epilogue == WHET_EPILOGUE_RELU ? relu(value) : value;
                }
}

void run_softmax(const Context& context, int64_t first, int64_t last) {
    const whet_op& op = context.plan.op;
    const whet_view& dst = op.operands[WHET_DST];
    const whet_view& src = op.operands[WHET_A];
    const int64_t block = context.nest.strip_rows;
    const int64_t begin = first * block, end = std::min(dst.extents[0], last * block);
    SoftmaxArgs args{
        static_cast<const float*>(context.operands.data[WHET_A]) + begin * src.strides[0],
        static_cast<float*>(context.operands.data[WHET_DST]) + begin * dst.strides[0],
        end - begin,
        dst.extents[1],
        src.strides[0],
        dst.strides[0]};
    context.call(context.nest.softmax_kernel, &args);
}

/// One (batch, group, strip) with the range of its outermost block loop. Images and their results
/// are f32.
template <typename T>
void run_outer(const Context& context, const int64_t* outer, int64_t first, int64_t last) {
    const Nest& nest = context.nest;
    const int64_t strip_first = outer[2] * nest.strip_rows;
    const int64_t strip_rows =
        nest.strip_rows ? std::min(nest.strip_rows, nest.output_rows - strip_first) : 0;
    if (nest.image.enabled) {
        const float* source = context.place<float>(Place::a) +
                              outer[0] * nest.image.source_outer[0] +
                              outer[1] * nest.image.source_outer[1];
        copy_image(nest.image, source, strip_first, context.place<float>(Place::image),
                   context.plan.isa);
    }
    for (const Contraction& contraction : nest.contractions) {
        const int64_t lanes = nest.rows_are_positions || nest.strip_rows == 0
                                  ? contraction.lanes
                                  : (strip_rows - 1) * nest.lanes_per_row + nest.last_row_lanes;
        if (contraction.degenerate) {
            run_degenerate<T>(context, contraction, outer, lanes);
            continue;
        }
        ContractionRun<T> run(context, contraction, outer, lanes);
        if (nest.tasks_per_outer == 1)
            run.run(0, run.outermost());
        else
            run.run(first, last);
    }
    if (nest.unpack.kind != UnpackKind::none) {
        float* dst = context.place<float>(Place::dst) + outer[0] * nest.unpack.dst_outer[0] +
                     outer[1] * nest.unpack.dst_outer[1];
        unpack_product(nest.unpack, context.place<float>(Place::product), dst, strip_first,
                       strip_rows);
    }
}

}  // namespace

void run_phase(const Plan& plan, const MicrokernelFunction* functions, int phase,
               const Operands& operands, std::byte* shared_scratch, std::byte* private_scratch,
               int64_t first, int64_t last) noexcept {
    (void)phase;
    (void)shared_scratch;
    const Nest& nest = *plan.nest;
    const Context context{plan, nest, functions, operands, private_scratch};
    if (nest.softmax_kernel >= 0) {
        run_softmax(context, first, last);
        return;
    }
    while (first < last) {
        const int64_t position = first / nest.tasks_per_outer;
        const int64_t begin = first % nest.tasks_per_outer;
        const int64_t end = std::min(nest.tasks_per_outer, begin + (last - first));
        const int64_t inner = nest.outer_extent[1] * nest.outer_extent[2];
        const int64_t outer[kOuterLoops] = {position / inner,
                                            position / nest.outer_extent[2] % nest.outer_extent[1],
                                            position % nest.outer_extent[2]};
        if (plan.element == Element::f64)
            run_outer<double>(context, outer, begin, end);
        else
            run_outer<float>(context, outer, begin, end);
        first += end - begin;
    }
}

void run_plan(const Plan& plan, const MicrokernelFunction* functions, const Operands& operands,
              std::byte* scratch) noexcept {
    for (size_t phase = 0; phase < plan.phases.size(); ++phase)
        run_phase(plan, functions, static_cast<int>(phase), operands, scratch,
                  scratch + plan.shared_bytes, 0, plan.phases[phase].task_count);
}

namespace {

template <typename T>
void pack_operand(const Plan& plan, int operand, const T* from, T* packed) {
    for (const Contraction& c : plan.nest->contractions)
        for (const bool scalar_side : {true, false}) {
            const Access& access = scalar_side ? c.scalar : c.vector;
            if (access.source != Source::frozen || static_cast<int>(access.place) != operand)
                continue;
            // A loop along which the operand does not move (stride 0) is packed once.
            const auto count = [&](int loop) {
                return access.packed_outer.stride[loop] == 0 ? 1 : plan.nest->outer_extent[loop];
            };
            for (int64_t batch = 0; batch < count(0); ++batch)
                for (int64_t group = 0; group < count(1); ++group) {
                    const int64_t outer[kOuterLoops] = {batch, group, 0};
                    pack_whole(
                        c, scalar_side, from + access.base + along(access.outer, outer), c.lanes,
                        packed + access.packed_base + along(access.packed_outer, outer), plan.isa);
                }
        }
}

}  // namespace

void pack_frozen(const Plan& plan, int operand, const void* source, void* packed) noexcept {
    if (plan.element == Element::f64)
        pack_operand(plan, operand, static_cast<const double*>(source),
                     static_cast<double*>(packed));
    else
        pack_operand(plan, operand, static_cast<const float*>(source), static_cast<float*>(packed));
}

}  // namespace whet::jit
