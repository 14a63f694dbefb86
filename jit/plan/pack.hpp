// SPDX-License-Identifier: Apache-2.0
// The copies that plans make: operands into panels, images into padded planes, products back into
// the caller's layout.
#pragma once

#include <cstdint>

#include "jit/microkernel.hpp"
#include "jit/plan/nest.hpp"

namespace whet::jit {

/// One block of panels to write: `count` axis positions from `source`, in panels of `width`,
/// reduction channels [0, channels) of every tap: dst = [panel][tap][channel][width]; positions
/// past `count` are zeros.
/// T: float or double.
template <typename T>
struct PanelCopyOf {
    const T* source;
    T* dst;
    int64_t count, width;
    int64_t channels;
    int64_t axis_stride, channel_stride;
    const int64_t* tap_offsets;
    int64_t taps;
    int64_t panel_stride;  ///< elements between panels in dst
    /// What is packed after this block, prefetched meanwhile; null: nothing, or not known.
    const T* next = nullptr;
    int64_t next_channels = 0;
};
using PanelCopy = PanelCopyOf<float>;
void copy_panels(const PanelCopyOf<float>& copy, Isa isa) noexcept;
void copy_panels(const PanelCopyOf<double>& copy, Isa isa) noexcept;

/// Fills the image of one strip; source is the whole image of (batch, group), first_row the strip's
/// first output row.
void copy_image(const ImageCopy& copy, const float* source, int64_t first_row, float* dst,
                Isa isa) noexcept;

/// Writes output rows [first_row, first_row + rows) of one (batch, group) from the product.
void unpack_product(const Unpack& unpack, const float* product, float* dst, int64_t first_row,
                    int64_t rows) noexcept;

}  // namespace whet::jit
