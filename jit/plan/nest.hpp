// SPDX-License-Identifier: Apache-2.0
// A plan's loop nest as data: contractions over addressed operands, the copies around them, and
// where scratch lies.
//
// A task is one (batch, group, strip) or one block of the outermost block loop inside it.
// Everything is in elements.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/schedule/schedule.hpp"

namespace whet::jit {

/// The memory that an address is relative to: an operand of the call, or a part of the private
/// scratch.
enum class Place : uint8_t { dst = 0, a = 1, b = 2, bias = 3, image = 4, product = 5 };

/// The tallest register tile.
inline constexpr int kMaxTileRows = 28;
/// The most channels of a depthwise convolution in one call of a microkernel.
inline constexpr int kMaxFold = 64;

/// The loops around everything else: batch, group, strip of output rows.
inline constexpr int kOuterLoops = 3;
struct OuterStrides {
    int64_t stride[kOuterLoops] = {0, 0, 0};
};

/// One side of the product. In place: address = base + outer + axis * axis_stride + channel *
/// channel_stride + tap_offsets[tap]. As panels: a panel holds `width` positions of the axis, laid
/// out [segment][tap][channel][width].
struct Access {
    Source source = Source::in_place;
    Place place = Place::a;
    int64_t base = 0;
    OuterStrides outer;
    int64_t axis_stride = 0;
    int64_t channel_stride = 0;
    std::vector<int64_t> tap_offsets;
    int64_t packed_base = 0;    ///< of this contraction's panels in a whole packed copy
    OuterStrides packed_outer;  ///< in a whole packed copy
    bool whole =
        false;  ///< per-call packing: the whole operand before the loops, not block by block
};

enum class BiasAxis : uint8_t {
    none,
    lane,     ///< one value per lane
    row,      ///< one value per row
    uniform,  ///< one value (depthwise: a group has one channel)
};

/// Where one group of rows or lanes lies, relative to the first: images that are computed together,
/// output rows of an image whose junk columns are skipped, channels of a depthwise convolution.
struct GroupOffset {
    int64_t scalar = 0, vector = 0, dst = 0;
    bool operator==(const GroupOffset&) const = default;
};

/// One product with its loops: (row groups x rows) x (lane groups x lanes) results, reduced over
/// taps and channels. Tiles never cross a group; a tile's number counts through all groups.
struct Contraction {
    int64_t rows = 0, lanes = 0;  ///< of one group
    int64_t channels = 0, taps = 1;
    int64_t segment = 1, segments = 1;
    std::vector<GroupOffset> row_groups{GroupOffset{}}, lane_groups{GroupOffset{}};
    bool uniform_row_groups =
        false;  ///< one tile a group, offsets in arithmetic progression: one call runs them all
    Access scalar, vector;
    int64_t vector_row_stride = 0;  ///< depthwise: the vector operand moves with the row too
    bool transposed_vector =
        false;  ///< in place, contiguous along the channels: the microkernels transpose it

    Place dst_place = Place::dst;
    int64_t dst_base = 0, dst_row = 0;
    OuterStrides dst_outer;
    BiasAxis bias_axis = BiasAxis::none;
    int64_t bias_base = 0;
    OuterStrides bias_outer;

    LoopOrder order = LoopOrder::lsr;
    int64_t row_block = 1, lane_block = 1;  ///< in tiles
    int64_t row_tiles = 0,
            wide_tiles = 0;  ///< of one group; the first wide_tiles have narrow_rows + 1 rows
    int narrow_rows = 1;
    int tile_lanes = 8;
    int kernel[2][2] = {{-1, -1}, {-1, -1}};  ///< [narrow, wide][full, masked loads]
    int fused_kernel =
        -1;  ///< of the first row tile, one vector of lanes a call; only fused vectors
    bool kernel_taps = false;              ///< the microkernels walk a tap table
    std::vector<int64_t> tap_table[2][2];  ///< [last segment][wide]: pairs as in TileArgs
    bool ahead = false;           ///< the microkernels prefetch the lane tile after the one at hand
    int64_t most_ahead_step = 0;  ///< bytes a step that they can cover
    bool degenerate = false;      ///< no products (K = 0, no tap, alpha = 0): dst = epilogue(start)

    /// Microkernels read the vector operand's rows in place and transpose them.
    bool reads_transposed() const { return transposed_vector || vector.source == Source::fused; }
    int64_t rows_before(int64_t tile) const {  ///< first row of a row tile of one group
        return tile * narrow_rows + (tile < wide_tiles ? tile : wide_tiles);
    }
    int64_t lane_tiles(int64_t lane_count) const {
        return (lane_count + tile_lanes - 1) / tile_lanes;
    }
    int64_t all_row_tiles() const { return row_tiles * static_cast<int64_t>(row_groups.size()); }
    int64_t all_lane_tiles(int64_t lane_count) const {
        return lane_tiles(lane_count) * static_cast<int64_t>(lane_groups.size());
    }
};

/// A zero-padded copy of one strip of one group's source: [channel][plane][row][pitch]; plane = (y
/// mod stride, x mod stride), so that every tap reads unit-stride columns ("pitch flattening",
/// "polyphase packing").
struct ImageCopy {
    bool enabled = false;
    int64_t channels = 0;
    int64_t images = 1;                ///< consecutive images of the batch copied together
    int64_t source_image = 0;          ///< stride between them in the source
    int64_t image_size = 0;            ///< elements between them in the copy
    int64_t source_outer[2] = {0, 0};  ///< strides of the batch and group loops in the source
    int64_t source_channel = 0, source_row = 0, source_column = 0;
    int64_t source_rows = 0, source_columns = 0;  ///< extents of the source image
    int64_t pad_rows = 0, pad_columns = 0;        ///< zeros before the first row and column
    int64_t stride_rows = 1, stride_columns = 1;
    int64_t planes_rows = 1, planes_columns = 1;  ///< planes kept: all residues, or only the first
    int64_t plane_rows = 0, pitch = 0;            ///< of one plane
    int64_t channel_stride = 0;  ///< elements between channels, kept off multiples of 4 KiB
    int64_t plane() const { return plane_rows * pitch; }
};

enum class UnpackKind : uint8_t {
    none,        ///< the contraction writes dst itself
    pitched,     ///< product [co][position] -> dst, junk columns dropped
    transposed,  ///< product [position][co] -> dst
    phases,      ///< product [phase][co][position] -> dst, phases interleaved
};

struct Unpack {
    UnpackKind kind = UnpackKind::none;
    int64_t channels = 0;                      ///< output channels of one group
    int64_t images = 1;                        ///< images in the product
    int64_t product_image = 0, dst_image = 0;  ///< elements between them
    int64_t product_row = 0;                   ///< elements between product rows
    int64_t pitch = 0;                         ///< positions between output rows
    int64_t columns = 0, rows = 0;             ///< output extents (of the whole image)
    int64_t phase_rows = 1, phase_columns = 1;
    int64_t phase_size = 0;  ///< elements of one phase's product
    int64_t dst_outer[2] = {0, 0}, dst_channel = 0, dst_row = 0, dst_column = 1;
};

struct Nest {
    int64_t outer_extent[kOuterLoops] = {1, 1, 1};
    int64_t strip_rows = 0;   ///< output rows of one strip (the last may have fewer); 0: no strips
    int64_t output_rows = 0;  ///< output rows (of a phase) that strips divide
    int64_t lanes_per_row =
        0;  ///< flattened positions per output row (pitch); the strip's lanes follow from it
    int64_t last_row_lanes = 0;  ///< positions of the last output row
    bool rows_are_positions =
        false;  ///< strips change the contraction's rows (channels, depthwise), not its lanes
    std::vector<Contraction> contractions;
    ImageCopy image;
    Unpack unpack;
    int64_t tasks_per_outer = 1;
    /// Offsets in private scratch, bytes.
    size_t image_offset = 0, product_offset = 0, scalar_offset = 0, vector_offset = 0;
    int softmax_kernel = -1;
};

}  // namespace whet::jit
