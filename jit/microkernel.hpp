// SPDX-License-Identifier: Apache-2.0
// What a code generator compiles: the spec of a microkernel, the arguments it is called with, the
// blob it becomes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace whet::jit {

/// Instruction-set levels. `portable` microkernels are the interpreter of jit/portable.hpp, for
/// tests and fallback.
enum class Isa : uint8_t { portable = 0, avx2 = 1, avx512 = 2 };

/// What the operands of an operation hold, and what its sums are chains of.
enum class Element : uint8_t { f32 = 0, f64 = 1 };
constexpr int bytes_of(Element element) { return element == Element::f64 ? 8 : 4; }

/// f32 lanes of one vector: 8 (portable and avx2), 16 (avx512).
constexpr int lanes_of(Isa isa) { return isa == Isa::avx512 ? 16 : 8; }
/// Lanes of one vector; of f64 half as many.
constexpr int lanes_of(Isa isa, Element element) {
    return element == Element::f64 ? lanes_of(isa) / 2 : lanes_of(isa);
}
const char* isa_name(Isa isa) noexcept;
base::Result<Isa> parse_isa(std::string_view text);

enum class MicrokernelKind : uint8_t {
    tile = 0,  ///< a contraction's register tile with its reduction loops and a loop over row tiles
    softmax = 1,  ///< whole rows: maximum, exponentials and their sum, scaling
};

/// How the broadcast operand of a tile is addressed, in elements from the tile's base (r: row, k:
/// reduction step).
enum class ScalarForm : uint8_t {
    rows_strided = 0,  ///< r * scalar_row + k: a row-major operand in place (unit stride in k)
    packed = 1,   ///< r + k * scalar_k: packed panels [k][rows], or a column-major operand in place
    general = 2,  ///< r * scalar_row + k * scalar_k
    uniform = 3,  ///< k * scalar_k: one value for all rows (depthwise weights)
};

/// How the vector operand of a tile is addressed (v: vector index, lanes are contiguous).
enum class VectorForm : uint8_t {
    strided = 0,  ///< k * vector_k + v * L: direct rows of a matrix or an image
    packed =
        1,  ///< k * (vectors * L) + v * L: packed panels [k][vectors * L]; the stride is a constant
    row_strided =
        2,  ///< r * vector_row + k * vector_k + v * L: every row has its own vectors (depthwise)
    transposed =
        3,  ///< l * vector_row + k: rows of a matrix in place whose columns the product reduces
            ///< over ([n][k] weights), transposed in registers, kTransposedSteps columns at a time
};

/// Steps of a `transposed` vector operand that are loaded at once; TileArgs::k is a multiple of it.
inline constexpr int kTransposedSteps = 4;
/// Unrolled steps of a `transposed` operand: a cache line of each row.
inline constexpr int kTransposedUnroll = 16;

enum class Epilogue : uint8_t { none = 0, relu = 1 };

/// Values of MicrokernelSpec::prefetch that fetch what TileArgs::ahead points at into the
/// second-level cache, while the tiles at hand are computed, and each tile's part of dst before its
/// reduction. Steps take turns at kAheadStreams places: one run of addresses keeps too few lines in
/// flight to use the memory's bandwidth. A `transposed` operand is fetched into the first level
/// instead, kAheadColumns before its use: its own rows, then the first columns of the rows at
/// `ahead`.
enum PrefetchAhead : uint8_t {
    kAheadLine = 1,  ///< one line in each reduction step
    kAheadRow = 2,   ///< as many lines as a step's vectors fill
};
inline constexpr int kAheadStreams = 4;
inline constexpr int kAheadColumns = 128;
constexpr bool is_ahead(int prefetch) { return prefetch == kAheadLine || prefetch == kAheadRow; }

/// Everything that reaches the code generator. Two equal specs make equal code for the same
/// generator version. For `softmax`, `rows` is the rows interleaved in one iteration; `vectors`,
/// forms and epilogue are unused (0).
struct MicrokernelSpec {
    MicrokernelKind kind = MicrokernelKind::tile;
    Isa isa = Isa::portable;
    uint8_t rows = 1;  ///< register tile rows (MR), 1 to 28
    uint8_t vectors =
        1;  ///< register tile vectors (NR / lanes), 1 to 8; rows * vectors accumulators
    uint8_t unroll = 1;  ///< reduction steps unrolled: 1, 2, 4 or 8; kTransposedUnroll where
                         ///< `vector` is transposed
    ScalarForm scalar = ScalarForm::packed;
    VectorForm vector = VectorForm::packed;
    Epilogue epilogue = Epilogue::none;
    uint8_t masked_loads =
        0;  ///< 1: vector loads are masked to `lanes` too (an operand in place at its right edge)
    uint8_t taps =
        0;  ///< 0: exactly one tap at 0; 1: an outer reduction loop over TileArgs.tap_offsets; 2:
            ///< the same with one step a tap (TileArgs.k is 1 and not read; unroll must be 1)
    uint8_t packs = 0;  ///< 1: the transposed operand is also stored, as panels (TileArgs::panel)
    uint8_t prefetch =
        0;  ///< 0: none; 1, 2: a PrefetchAhead; from 3: the vector operand, so many steps ahead
    Element element =
        Element::f32;  ///< f64: tiles without taps whose vector operand is strided or packed

    /// Lanes of one vector.
    int lanes() const { return lanes_of(isa, element); }
    /// One token, e.g. `tile.avx512.r14.v2.u4.packed.strided.none` with suffixes `.f64`, `.masked`,
    /// `.taps` or `.steps`, `.packs`, `.p8` where set.
    std::string print() const;
    /// Inverse of print; invalid_argument says what was got and expected.
    static base::Result<MicrokernelSpec> parse(std::string_view text);
    /// ok, or why no generator will build it (ranges; register budget: for packed and strided
    /// vectors rows * vectors + min(rows, vectors) + 1 <= 32 or 16, tighter for the other two).
    base::Result<void> check() const;
    bool operator==(const MicrokernelSpec&) const = default;
};
uint64_t hash_of(const MicrokernelSpec& spec) noexcept;

/// Where the result starts before the segment's sum is added: c = start; c = fma(alpha, acc, c).
enum StartMode : int64_t {
    kStartZero = 0,      ///< +0; dst is not read
    kStartDst = 1,       ///< dst as it is (beta = 1, and every segment but the first)
    kStartScaled = 2,    ///< beta * dst, rounded
    kStartBiasLane = 3,  ///< bias[lane]
    kStartBiasRow = 4,   ///< bias[row]
};

/// Arguments of a tile microkernel. All strides in elements; 64-bit everywhere. Semantics, for
/// every row tile t in [0, tiles), row r in [0, spec.rows), lane l in [0, lanes):
///     acc = +0
///     for tap in [0, taps):  for i in [0, k):              (ascending; one fma each, single
///     rounding; spec.taps == 2:
///                                                           i = 0 only)
///         acc = fma(S(t, r, tap, i), V(t, r, tap, i, l), acc)
///     c = start(mode);  c = fma(alpha, acc, c)              (alpha = 1 too: the fma by 1 adds
///     exactly) if finish: c = epilogue(c) dst[t * dst_tile + r * dst_row + l] = c
/// S(...) = scalar[t * scalar_tile + tap_offsets[2 * tap] + form(r, i)],
/// V(...) = vector[t * vector_tile + tap_offsets[2 * tap + 1] + form(r, i, l)].
/// Lanes at or past `lanes`, and of a transposed operand those before `first_lane`, are never
/// stored, and never loaded when spec.masked_loads; otherwise the vector operand is readable for
/// the whole tile width. k = 0 or taps = 0: acc = +0. bias_tile steps the bias per row tile
/// (BiasRow).
/// T: float or double, as MicrokernelSpec::element says.
template <typename T>
struct TileArgsOf {
    const T* scalar;
    const T* vector;
    T* dst;
    const T* bias;
    const int64_t*
        tap_offsets;  ///< [taps][2]: scalar offset, vector offset; unused when spec.taps == 0
    int64_t taps;
    int64_t k;
    int64_t tiles;
    int64_t lanes;
    int64_t first_lane;  ///< below `lanes`; unused unless the vector operand is transposed
    int64_t scalar_row, scalar_k, scalar_tile;
    int64_t vector_row, vector_k, vector_tile;
    int64_t dst_row, dst_tile, bias_tile;
    int64_t start;   ///< StartMode
    int64_t finish;  ///< 1: the last segment, apply the epilogue
    T alpha, beta;
    const T* ahead;   ///< what will be needed next; prefetched, never read; unused unless
                      ///< is_ahead(spec.prefetch)
    T* panel;         ///< where spec.packs: panel[i * panel_k + l] = V(.., i, l), whole vectors, in
                      ///< every row tile
    int64_t panel_k;  ///< elements
    /// Bytes that the prefetches move on after each unrolled reduction step, and after every
    /// kAheadStreams-th instead, through all tiles. Unused where the vector operand is transposed.
    int64_t ahead_stream, ahead_return;
};
using TileArgs = TileArgsOf<float>;

/// Arguments of a softmax microkernel: for each row, m = max, e = exp(x - m), dst = e / row_sum(e);
/// rules of numerics.py.
struct SoftmaxArgs {
    const float* src;
    float* dst;
    int64_t rows, columns;
    int64_t src_row, dst_row;
};

using MicrokernelFunction = void (*)(const void* args);

/// Compiled code: position-independent text and read-only data in one block, no relocation left, no
/// external symbol.
struct Blob {
    MicrokernelSpec spec;
    std::vector<uint8_t> bytes;  ///< copy to a 64-byte aligned executable address as it is
    uint32_t entry = 0;          ///< offset of the function in bytes
    uint32_t text_bytes = 0;  ///< bytes [0, text_bytes) are instructions, the rest read-only data
};

/// Raised whenever generated code or its argument layout changes; part of every stored key.
inline constexpr uint32_t kGeneratorVersion = 6;
/// The version of the `consistent` rules (numerics.py); part of every stored key.
inline constexpr uint32_t kNumericsVersion = 1;

}  // namespace whet::jit
