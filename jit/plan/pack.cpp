// SPDX-License-Identifier: Apache-2.0
// Precompiled copies; the transposing panel copy has one body per instruction set, the rest is memory-bound anyway.
#include "jit/plan/pack.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace whet::jit {

namespace {

/// dst[c * width + i] = source[i * axis_stride + c * channel_stride], any strides.
void copy_block_any(const float* source, float* dst, int64_t count, int64_t width, int64_t channels,
                    int64_t axis_stride, int64_t channel_stride) {
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < count; ++i) dst[c * width + i] = source[i * axis_stride + c * channel_stride];
}

/// Transposes 16 rows of 16 channels; rows at `row_stride`, results at `width`.
__attribute__((target("avx512f"))) void transpose_16x16(const float* source, int64_t row_stride, float* dst,
                                                        int64_t width) {
    __m512 r[16], t[16];
    for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_ps(source + i * row_stride);
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        _mm512_storeu_ps(dst + (i + 0) * width, _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88));
        _mm512_storeu_ps(dst + (i + 8) * width, _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd));
        _mm512_storeu_ps(dst + (i + 4) * width, _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88));
        _mm512_storeu_ps(dst + (i + 12) * width, _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd));
    }
}

/// Transposes 8 rows of 8 channels.
__attribute__((target("avx2"))) void transpose_8x8(const float* source, int64_t row_stride, float* dst, int64_t width) {
    __m256 r[8], t[8];
    for (int i = 0; i < 8; ++i) r[i] = _mm256_loadu_ps(source + i * row_stride);
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
        _mm256_storeu_ps(dst + i * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(dst + (i + 4) * width, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/// channel_stride == 1: whole squares by the transposing body, the rest element by element.
void copy_block_transposed(const float* source, float* dst, int64_t count, int64_t width, int64_t channels,
                           int64_t axis_stride, Isa isa) {
    const int64_t side = isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 0;
    const int64_t square_count = side ? count / side * side : 0;
    const int64_t square_channels = side ? channels / side * side : 0;
    for (int64_t i = 0; i < square_count; i += side) {
        const float* rows = source + i * axis_stride;
        for (int64_t c = 0; c < square_channels; c += side) {
            if (isa == Isa::avx512) transpose_16x16(rows + c, axis_stride, dst + c * width + i, width);
            else transpose_8x8(rows + c, axis_stride, dst + c * width + i, width);
        }
    }
    if (square_channels < channels)
        copy_block_any(source + square_channels, dst + square_channels * width, square_count, width,
                       channels - square_channels, axis_stride, 1);
    copy_block_any(source + square_count * axis_stride, dst + square_count, count - square_count, width, channels,
                   axis_stride, 1);
}

void copy_block(const float* source, float* dst, int64_t count, int64_t width, int64_t channels, int64_t axis_stride,
                int64_t channel_stride, Isa isa) {
    if (count < width)
        for (int64_t c = 0; c < channels; ++c) std::fill(dst + c * width + count, dst + (c + 1) * width, 0.0f);
    if (axis_stride == 1) {
        for (int64_t c = 0; c < channels; ++c)
            std::memcpy(dst + c * width, source + c * channel_stride, static_cast<size_t>(count) * sizeof(float));
    } else if (channel_stride == 1) {
        copy_block_transposed(source, dst, count, width, channels, axis_stride, isa);
    } else {
        copy_block_any(source, dst, count, width, channels, axis_stride, channel_stride);
    }
}

/// One padded row of one plane: columns x with (x * stride + phase - pad) inside the source, zeros elsewhere.
void copy_row(const float* source, float* dst, int64_t pitch, int64_t phase, int64_t stride, int64_t pad,
              int64_t columns, int64_t column_stride) {
    const int64_t shift = phase - pad;  // source column of x = 0
    const int64_t begin = shift >= 0 ? 0 : std::min(pitch, (-shift + stride - 1) / stride);
    const int64_t end = columns > shift ? std::min(pitch, (columns - shift + stride - 1) / stride) : 0;
    for (int64_t x = 0; x < std::min(begin, pitch); ++x) dst[x] = 0.0f;
    if (stride * column_stride == 1 && end > begin) {
        std::memcpy(dst + begin, source + shift + begin, static_cast<size_t>(end - begin) * sizeof(float));
    } else {
        for (int64_t x = begin; x < end; ++x) dst[x] = source[(shift + x * stride) * column_stride];
    }
    for (int64_t x = std::max(begin, end); x < pitch; ++x) dst[x] = 0.0f;
}

}  // namespace

void copy_panels(const PanelCopy& copy, Isa isa) noexcept {
    for (int64_t first = 0, panel = 0; first < copy.count; first += copy.width, ++panel) {
        const int64_t count = std::min(copy.width, copy.count - first);
        float* dst = copy.dst + panel * copy.panel_stride;
        for (int64_t tap = 0; tap < copy.taps; ++tap) {
            copy_block(copy.source + first * copy.axis_stride + copy.tap_offsets[tap], dst, count, copy.width,
                       copy.channels, copy.axis_stride, copy.channel_stride, isa);
            dst += copy.channels * copy.width;
        }
    }
}

void copy_image(const ImageCopy& copy, const float* source, int64_t first_row, float* image) noexcept {
    const int64_t top = first_row * copy.stride_rows - copy.pad_rows;
    for (int64_t c = 0; c < copy.channels; ++c) {
        const float* channel = source + c * copy.source_channel;
        float* dst = image + c * copy.channel_stride;
        for (int64_t phase_y = 0; phase_y < copy.planes_rows; ++phase_y)
            for (int64_t phase_x = 0; phase_x < copy.planes_columns; ++phase_x)
                for (int64_t row = 0; row < copy.plane_rows; ++row, dst += copy.pitch) {
                    const int64_t y = top + row * copy.stride_rows + phase_y;
                    if (y < 0 || y >= copy.source_rows) {
                        std::fill(dst, dst + copy.pitch, 0.0f);
                        continue;
                    }
                    copy_row(channel + y * copy.source_row, dst, copy.pitch, phase_x, copy.stride_columns,
                             copy.pad_columns, copy.source_columns, copy.source_column);
                }
    }
}

namespace {

void unpack_pitched(const Unpack& u, const float* product, float* dst, int64_t first_row, int64_t rows) {
    for (int64_t co = 0; co < u.channels; ++co)
        for (int64_t y = 0; y < rows; ++y) {
            const float* from = product + co * u.product_row + y * u.pitch;
            float* to = dst + co * u.dst_channel + (first_row + y) * u.dst_row;
            if (u.dst_column == 1) {
                std::memcpy(to, from, static_cast<size_t>(u.columns) * sizeof(float));
            } else {
                for (int64_t x = 0; x < u.columns; ++x) to[x * u.dst_column] = from[x];
            }
        }
}

void unpack_transposed(const Unpack& u, const float* product, float* dst, int64_t first_row, int64_t rows) {
    constexpr int64_t kBlock = 16;  // channels and columns of one square: both sides stay in L1
    for (int64_t y = 0; y < rows; ++y)
        for (int64_t x0 = 0; x0 < u.columns; x0 += kBlock)
            for (int64_t c0 = 0; c0 < u.channels; c0 += kBlock) {
                const int64_t x1 = std::min(u.columns, x0 + kBlock), c1 = std::min(u.channels, c0 + kBlock);
                for (int64_t co = c0; co < c1; ++co) {
                    const float* from = product + y * u.pitch * u.product_row + co;
                    float* to = dst + co * u.dst_channel + (first_row + y) * u.dst_row;
                    for (int64_t x = x0; x < x1; ++x) to[x * u.dst_column] = from[x * u.product_row];
                }
            }
}

void unpack_phases(const Unpack& u, const float* product, float* dst, int64_t first_row, int64_t rows) {
    // first_row and rows count output rows of a phase: dst rows first_row * phase_rows + phase.
    for (int64_t co = 0; co < u.channels; ++co)
        for (int64_t y = 0; y < rows; ++y)
            for (int64_t phase_y = 0; phase_y < u.phase_rows; ++phase_y) {
                const int64_t out_y = (first_row + y) * u.phase_rows + phase_y;
                if (out_y >= u.rows) continue;
                float* to = dst + co * u.dst_channel + out_y * u.dst_row;
                const float* from = product + phase_y * u.phase_columns * u.phase_size + co * u.product_row + y * u.pitch;
                if (u.phase_columns == 2 && u.dst_column == 1) {
                    const float* even = from;
                    const float* odd = from + u.phase_size;
                    const int64_t pairs = u.columns / 2;
                    for (int64_t x = 0; x < pairs; ++x) {
                        to[2 * x] = even[x];
                        to[2 * x + 1] = odd[x];
                    }
                    if (u.columns % 2) to[u.columns - 1] = even[pairs];
                    continue;
                }
                for (int64_t x = 0; x < u.columns; ++x)
                    to[x * u.dst_column] = from[x % u.phase_columns * u.phase_size + x / u.phase_columns];
            }
}

}  // namespace

void unpack_product(const Unpack& unpack, const float* product, float* dst, int64_t first_row, int64_t rows) noexcept {
    switch (unpack.kind) {
        case UnpackKind::none: return;
        case UnpackKind::pitched: return unpack_pitched(unpack, product, dst, first_row, rows);
        case UnpackKind::transposed: return unpack_transposed(unpack, product, dst, first_row, rows);
        case UnpackKind::phases: return unpack_phases(unpack, product, dst, first_row, rows);
    }
}

}  // namespace whet::jit
