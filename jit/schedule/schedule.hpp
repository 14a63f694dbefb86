// SPDX-License-Identifier: Apache-2.0
// A schedule as data: a sketch (program structure) and its parameters; prints, parses, hashes,
// compares.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.hpp"

namespace whet::jit {

/// Where an operand of a contraction is read from.
enum class Source : uint8_t {
    in_place = 0,  ///< the caller's memory, by strides
    packed = 1,    ///< a copy in the microkernel's order, made in every call
    frozen = 2,    ///< the same copy, made once for an operand promised frozen
    fused = 3,  ///< the copy of `packed`, made in passing: the first row tile reads the operand in
                ///< place, transposes it in registers, and stores what the other row tiles read
};
/// Whether a call copies the operand.
constexpr bool is_copied(Source source) {
    return source == Source::packed || source == Source::fused;
}

/// Which program structure computes an operator (the sketch); jit/sketch derives the legal ones
/// from a computation.
enum class Structure : uint8_t {
    matmul = 0,     ///< rows = M, lanes = N
    pixels = 1,     ///< convolution, lanes = output pixels of a pitched image copy (orientation A)
    channels = 2,   ///< convolution, lanes = output channels, rows = pixels (orientation B)
    depthwise = 3,  ///< lanes = output columns, rows = output rows of one channel
    phases = 4,     ///< transposed convolution: one stride-1 `pixels` convolution per output phase,
                    ///< interleaved
    row_softmax = 5,  ///< whole rows
};

/// The order of the block loops, outermost first: r = row blocks, l = lane blocks, s = reduction
/// segments.
enum class LoopOrder : uint8_t { lsr = 0, slr, rsl, srl, lrs, rls };

/// The value of Schedule::prefetch that asks for the next panel.
inline constexpr uint8_t kScheduleAhead = 1;

/// Plain data. Blocks are in register tiles; 0 means the whole axis.
struct Schedule {
    Structure structure = Structure::matmul;
    Source scalar = Source::in_place;
    Source vector = Source::in_place;
    LoopOrder order = LoopOrder::lsr;
    uint8_t rows = 1;         ///< register tile rows
    uint8_t vectors = 1;      ///< register tile vectors
    uint8_t unroll = 1;       ///< reduction steps unrolled in the microkernel
    uint8_t prefetch = 0;     ///< 0: none; 1: the next panel of the vector operand; from 3: so many
                              ///< reduction steps ahead
    uint16_t row_block = 0;   ///< row tiles in one row block
    uint16_t lane_block = 0;  ///< lane tiles in one lane block
    uint16_t outer_block = 1;  ///< convolutions: output rows of one image strip (0: all); else 1
    uint16_t fold = 1;         ///< images (depthwise: channels) computed together; 1 elsewhere
    uint8_t parallel =
        0;  ///< block loops (outermost first) whose iterations are separate tasks, 0 to 3

    /// e.g. `matmul a=in_place b=frozen order=lsr tile=14x2 unroll=4 prefetch=0 block=0x8x1 fold=1
    /// parallel=1`.
    std::string print() const;
    /// Inverse of print. invalid_argument states got and expected.
    static base::Result<Schedule> parse(std::string_view text);
    bool operator==(const Schedule&) const = default;
};
uint64_t hash_of(const Schedule& schedule) noexcept;

}  // namespace whet::jit
