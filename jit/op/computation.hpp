// SPDX-License-Identifier: Apache-2.0
// A computation as an affine tensor expression: axes, reads, combiner, epilogue; what every later
// stage derives from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace whet::jit {

enum class AxisKind : uint8_t {
    spatial,  ///< an axis of the result
    tap,      ///< reduced, outer: the kernel positions of a convolution
    channel,  ///< reduced, inner: cut into segments (numerics.py)
};

/// A named loop variable with its extent.
struct Axis {
    const char* name;
    AxisKind kind;
    int64_t extent;
};

/// Index of one dimension of a read: (offset + sum of coefficient[axis] * value) / divisor. Where
/// the division leaves a rest, or the index lies outside the dimension, the term is skipped (a
/// convolution's padding, a transposed one's gaps).
struct AffineIndex {
    int64_t offset = 0;
    int64_t divisor = 1;
    std::vector<int64_t> coefficients;  ///< one per axis of the computation
};

/// One operand of the product.
struct Read {
    int operand;
    std::vector<AffineIndex> dimensions;
};

enum class Combiner : uint8_t {
    fma_sum,  ///< dst = alpha * sum over taps and channels of reads[0] * reads[1], then the start
              ///< value, in segments
    softmax,  ///< the row functions of numerics.py over the last axis of reads[0]
};

/// The meaning of one operation; the groups of a convolution are an axis of their own.
struct Computation {
    std::vector<Axis>
        axes;  ///< spatial axes in dst's order first, then taps (row-major), then channels
    std::vector<Read> reads;          ///< fma_sum: two; softmax: one
    std::vector<AffineIndex> result;  ///< dst's index, one per dimension of dst
    Combiner combiner = Combiner::fma_sum;
    int64_t segment = 0;      ///< channels in one chain (fma_sum)
    int bias_dimension = -1;  ///< dst dimension that the bias runs along; -1: none
    int symbolic_axis = -1;   ///< the axis in which members of one family may differ (rows, batch)

    std::string print() const;
};

/// Derives the computation of an operation. Operations made by whet_op_* are always understood.
base::Result<Computation> computation_of(const whet_op& op);

/// numerics.py: SEGMENT_K.
inline constexpr int64_t kSegmentMatmul = 512;
/// numerics.py: channels_per_segment: a power of two, 8 to 512.
int64_t channels_per_segment(int64_t taps) noexcept;

// One function per operator, each operator in a file of its own.
base::Result<Computation> matmul_computation(const whet_op& op);
base::Result<Computation> conv_computation(const whet_op& op);
base::Result<Computation> conv_transpose_computation(const whet_op& op);
base::Result<Computation> softmax_computation(const whet_op& op);

/// The product of the extents of the axes of one kind.
int64_t extent_of(const Computation& computation, AxisKind kind) noexcept;
/// Index of the first axis with this name, or -1.
int find_axis(const Computation& computation, const char* name) noexcept;
/// Memory stride, in elements, of a read when `axis` advances by one (for divisor 1).
int64_t stride_along(const whet_op& op, const Read& read, int axis) noexcept;
/// The same for the result.
int64_t result_stride_along(const whet_op& op, const Computation& computation, int axis) noexcept;
/// The type of the operation's operands: all have that of dst.
Element element_of(const whet_op& op) noexcept;
/// True when some extent of dst is 0: nothing to compute.
bool is_empty(const whet_op& op) noexcept;

}  // namespace whet::jit
