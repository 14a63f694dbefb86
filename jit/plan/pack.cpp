// SPDX-License-Identifier: Apache-2.0
// Precompiled copies; the transposing panel copy has one body per instruction set, the rest is
// memory-bound anyway.
#include "jit/plan/pack.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

namespace whet::jit {

namespace {

/// dst[c * width + i] = source[i * axis_stride + c * channel_stride], any strides.
template <typename T>
void copy_block_any(const T* source, T* dst, int64_t count, int64_t width, int64_t channels,
                    int64_t axis_stride, int64_t channel_stride) {
    for (int64_t c = 0; c < channels; ++c)
        for (int64_t i = 0; i < count; ++i)
            dst[c * width + i] = source[i * axis_stride + c * channel_stride];
}

/// Transposes up to 16 rows of up to 16 channels: dst[c * width + i] = source[i * row_stride + c].
/// Nothing outside the given rows and channels is read or written.
__attribute__((target("avx512f"))) void transpose_avx512(const float* source, int64_t row_stride,
                                                         float* dst, int64_t width, int rows,
                                                         int channels) {
    const auto channel_mask = static_cast<__mmask16>((1u << channels) - 1);
    const auto row_mask = static_cast<__mmask16>((1u << rows) - 1);
    __m512 r[16], t[16];
    for (int i = 0; i < 16; ++i)
        r[i] = i < rows ? _mm512_maskz_loadu_ps(channel_mask, source + i * row_stride)
                        : _mm512_setzero_ps();
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_castpd_ps(
            _mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 1] = _mm512_castpd_ps(
            _mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 2] = _mm512_castpd_ps(
            _mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        r[i + 3] = _mm512_castpd_ps(
            _mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
    for (int i = 0; i < 16; ++i)
        if (i < channels) _mm512_mask_storeu_ps(dst + i * width, row_mask, r[i]);
}

/// The same for 8 rows of 8 channels.
__attribute__((target("avx2"))) void transpose_avx2(const float* source, int64_t row_stride,
                                                    float* dst, int64_t width, int rows,
                                                    int channels) {
    alignas(32) static constexpr int32_t kMasks[16] = {-1, -1, -1, -1, -1, -1, -1, -1,
                                                       0,  0,  0,  0,  0,  0,  0,  0};
    const __m256i channel_mask =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - channels));
    const __m256i row_mask =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMasks + 8 - rows));
    __m256 r[8], t[8];
    for (int i = 0; i < 8; ++i)
        r[i] = i < rows ? _mm256_maskload_ps(source + i * row_stride, channel_mask)
                        : _mm256_setzero_ps();
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
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < 8; ++i) {
        if (i >= channels) break;
        if (rows == 8)
            _mm256_storeu_ps(dst + i * width,
                             t[i]);  // a masked store costs many cycles on some CPUs
        else
            _mm256_maskstore_ps(dst + i * width, row_mask, t[i]);
    }
}

/// A whole square of 16 x 16. Each register is loaded as four quarters, rows j, 4 + j, 8 + j and 12
/// + j of four channels: the loads do half of the work, and two rounds of shuffles are left of
/// four.
__attribute__((target("avx512f"))) void transpose_square_avx512(const float* source,
                                                                int64_t row_stride, float* dst,
                                                                int64_t width) {
    for (int c = 0; c < 16; c += 4) {
        __m512 r[4];
        for (int j = 0; j < 4; ++j) {
            const float* from = source + j * row_stride + c;
            r[j] = _mm512_castps128_ps512(_mm_loadu_ps(from));
            r[j] = _mm512_insertf32x4(r[j], _mm_loadu_ps(from + 4 * row_stride), 1);
            r[j] = _mm512_insertf32x4(r[j], _mm_loadu_ps(from + 8 * row_stride), 2);
            r[j] = _mm512_insertf32x4(r[j], _mm_loadu_ps(from + 12 * row_stride), 3);
        }
        const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
        const __m512d high01 = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
        const __m512d low23 = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
        const __m512d high23 = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
        float* const to = dst + c * width;
        _mm512_storeu_ps(to, _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23)));
        _mm512_storeu_ps(to + width, _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23)));
        _mm512_storeu_ps(to + 2 * width, _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23)));
        _mm512_storeu_ps(to + 3 * width, _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23)));
    }
}

/// The same for 8 x 8, in halves.
__attribute__((target("avx2"))) void transpose_square_avx2(const float* source, int64_t row_stride,
                                                           float* dst, int64_t width) {
    for (int c = 0; c < 8; c += 4) {
        __m256 r[4];
        for (int j = 0; j < 4; ++j) {
            const float* from = source + j * row_stride + c;
            r[j] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)),
                                        _mm_loadu_ps(from + 4 * row_stride), 1);
        }
        const __m256d low01 = _mm256_castps_pd(_mm256_unpacklo_ps(r[0], r[1]));
        const __m256d high01 = _mm256_castps_pd(_mm256_unpackhi_ps(r[0], r[1]));
        const __m256d low23 = _mm256_castps_pd(_mm256_unpacklo_ps(r[2], r[3]));
        const __m256d high23 = _mm256_castps_pd(_mm256_unpackhi_ps(r[2], r[3]));
        float* const to = dst + c * width;
        _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(low01, low23)));
        _mm256_storeu_ps(to + width, _mm256_castpd_ps(_mm256_unpackhi_pd(low01, low23)));
        _mm256_storeu_ps(to + 2 * width, _mm256_castpd_ps(_mm256_unpacklo_pd(high01, high23)));
        _mm256_storeu_ps(to + 3 * width, _mm256_castpd_ps(_mm256_unpackhi_pd(high01, high23)));
    }
}

/// Asks for `rows` lines of the second-level cache, one of each row.
template <typename T>
void prefetch_rows(const T* source, int64_t row_stride, int rows) {
    for (int i = 0; i < rows; ++i)
        _mm_prefetch(reinterpret_cast<const char*>(source + i * row_stride), _MM_HINT_T1);
}

/// The panel that comes after one, with as many positions.
template <typename T>
struct NextPanel {
    const T* source = nullptr;
    int64_t channels = 0;
};

/// channel_stride == 1: square by square. A panel comes from as many streams as it has positions,
/// more than hardware follows: the same square of the next one is asked for meanwhile.
void copy_block_transposed(const float* source, float* dst, int64_t count, int64_t width,
                           int64_t channels, int64_t axis_stride, const NextPanel<float>& next,
                           Isa isa) {
    if (isa == Isa::portable)
        return copy_block_any(source, dst, count, width, channels, axis_stride, 1);
    const int64_t side = isa == Isa::avx512 ? 16 : 8;
    for (int64_t i = 0; i < count; i += side) {
        const int rows = static_cast<int>(std::min(side, count - i));
        for (int64_t c = 0; c < channels; c += side) {
            const int some = static_cast<int>(std::min(side, channels - c));
            const float* from = source + i * axis_stride + c;
            if (c < next.channels)
                prefetch_rows(next.source + i * axis_stride + c, axis_stride, rows);
            float* const to = dst + c * width + i;
            const bool square = rows == side && some == side;
            if (isa == Isa::avx512) {
                if (square)
                    transpose_square_avx512(from, axis_stride, to, width);
                else
                    transpose_avx512(from, axis_stride, to, width, rows, some);
            } else if (square) {
                transpose_square_avx2(from, axis_stride, to, width);
            } else {
                transpose_avx2(from, axis_stride, to, width, rows, some);
            }
        }
    }
}

/// A block of 8 positions x 4 channels of f64. Rows 0 and 2, 1 and 3, 4 and 6, 5 and 7 are loaded
/// as halves, so that two rounds of shuffles put them in order.
__attribute__((target("avx512f"))) void transpose_block_avx512(const double* source,
                                                               int64_t row_stride, double* dst,
                                                               int64_t width) {
    const auto halves = [&](int row) __attribute__((target("avx512f"))) {
        return _mm512_insertf64x4(
            _mm512_castpd256_pd512(_mm256_loadu_pd(source + row * row_stride)),
            _mm256_loadu_pd(source + (row + 2) * row_stride), 1);
    };
    const __m512d r02 = halves(0), r13 = halves(1), r46 = halves(4), r57 = halves(5);
    const __m512d low = _mm512_unpacklo_pd(r02, r13), high = _mm512_unpackhi_pd(r02, r13);
    const __m512d low4 = _mm512_unpacklo_pd(r46, r57), high4 = _mm512_unpackhi_pd(r46, r57);
    _mm512_storeu_pd(dst, _mm512_shuffle_f64x2(low, low4, 0x88));
    _mm512_storeu_pd(dst + width, _mm512_shuffle_f64x2(high, high4, 0x88));
    _mm512_storeu_pd(dst + 2 * width, _mm512_shuffle_f64x2(low, low4, 0xdd));
    _mm512_storeu_pd(dst + 3 * width, _mm512_shuffle_f64x2(high, high4, 0xdd));
}

/// The same for 4 x 4.
__attribute__((target("avx2"))) void transpose_block_avx2(const double* source, int64_t row_stride,
                                                          double* dst, int64_t width) {
    const __m256d r0 = _mm256_loadu_pd(source), r1 = _mm256_loadu_pd(source + row_stride);
    const __m256d r2 = _mm256_loadu_pd(source + 2 * row_stride),
                  r3 = _mm256_loadu_pd(source + 3 * row_stride);
    const __m256d low = _mm256_unpacklo_pd(r0, r1), high = _mm256_unpackhi_pd(r0, r1);
    const __m256d low2 = _mm256_unpacklo_pd(r2, r3), high2 = _mm256_unpackhi_pd(r2, r3);
    _mm256_storeu_pd(dst, _mm256_permute2f128_pd(low, low2, 0x20));
    _mm256_storeu_pd(dst + width, _mm256_permute2f128_pd(high, high2, 0x20));
    _mm256_storeu_pd(dst + 2 * width, _mm256_permute2f128_pd(low, low2, 0x31));
    _mm256_storeu_pd(dst + 3 * width, _mm256_permute2f128_pd(high, high2, 0x31));
}

/// f64: blocks of 8 or 4 positions and 4 channels, what is left element by element.
void copy_block_transposed(const double* source, double* dst, int64_t count, int64_t width,
                           int64_t channels, int64_t axis_stride, const NextPanel<double>& next,
                           Isa isa) {
    if (isa == Isa::portable)
        return copy_block_any(source, dst, count, width, channels, axis_stride, 1);
    constexpr int64_t kChannels = 4, kLine = 8;
    for (int64_t i = 0, rows = 0; i < count; i += rows) {
        rows = count - i >= 8 && isa == Isa::avx512 ? 8 : std::min<int64_t>(count - i, 4);
        int64_t c = 0;
        for (; rows >= 4 && c + kChannels <= channels; c += kChannels) {
            if (c % kLine == 0 && c < next.channels)
                prefetch_rows(next.source + i * axis_stride + c, axis_stride,
                              static_cast<int>(rows));
            const double* from = source + i * axis_stride + c;
            double* const to = dst + c * width + i;
            if (rows == 8)
                transpose_block_avx512(from, axis_stride, to, width);
            else
                transpose_block_avx2(from, axis_stride, to, width);
        }
        copy_block_any(source + i * axis_stride + c, dst + c * width + i, rows, width, channels - c,
                       axis_stride, 1);
    }
}

template <typename T>
void copy_block(const T* source, T* dst, int64_t count, int64_t width, int64_t channels,
                int64_t axis_stride, int64_t channel_stride, const NextPanel<T>& next, Isa isa) {
    if (count < width)
        for (int64_t c = 0; c < channels; ++c)
            std::fill(dst + c * width + count, dst + (c + 1) * width, T{0});
    if (axis_stride == 1) {
        for (int64_t c = 0; c < channels; ++c)
            std::memcpy(dst + c * width, source + c * channel_stride,
                        static_cast<size_t>(count) * sizeof(T));
    } else if (channel_stride == 1) {
        copy_block_transposed(source, dst, count, width, channels, axis_stride, next, isa);
    } else {
        copy_block_any(source, dst, count, width, channels, axis_stride, channel_stride);
    }
}

/// dst[i] = source[2 * i], count values; reads no element past source[2 * (count - 1)].
__attribute__((target("avx512f"))) void copy_even_avx512(const float* source, float* dst,
                                                         int64_t count) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    for (; count > 0; count -= 16, source += 32, dst += 16) {
        const int64_t elements = count >= 16 ? 31 : 2 * count - 1;
        const auto low = static_cast<__mmask16>(elements >= 16 ? 0xffff : (1u << elements) - 1);
        const auto high = static_cast<__mmask16>(elements > 16 ? (1u << (elements - 16)) - 1 : 0);
        const __m512 a = _mm512_maskz_loadu_ps(low, source),
                     b = _mm512_maskz_loadu_ps(high, source + 16);
        const auto stored = static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1);
        _mm512_mask_storeu_ps(dst, stored, _mm512_permutex2var_ps(a, even, b));
    }
}
__attribute__((target("avx2"))) void copy_even_avx2(const float* source, float* dst,
                                                    int64_t count) {
    for (; count > 8;
         count -= 8, source += 16, dst += 8) {  // reads 16 of the 2 * count - 1 > 16 elements
        const __m256 a = _mm256_loadu_ps(source), b = _mm256_loadu_ps(source + 8);
        const __m256d even = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
        _mm256_storeu_ps(dst, _mm256_castpd_ps(_mm256_permute4x64_pd(even, 0xd8)));
    }
    for (int64_t i = 0; i < count; ++i) dst[i] = source[2 * i];
}

void copy_strided(const float* source, float* dst, int64_t count, int64_t stride, Isa isa) {
    if (stride == 1)
        std::memcpy(dst, source, static_cast<size_t>(count) * sizeof(float));
    else if (stride == 2 && isa == Isa::avx512)
        copy_even_avx512(source, dst, count);
    else if (stride == 2 && isa == Isa::avx2)
        copy_even_avx2(source, dst, count);
    else
        for (int64_t i = 0; i < count; ++i) dst[i] = source[i * stride];
}

/// One padded row of one plane: columns x with (x * stride + phase - pad) inside the source, zeros
/// elsewhere.
void copy_row(const float* source, float* dst, int64_t pitch, int64_t phase, int64_t stride,
              int64_t pad, int64_t columns, int64_t column_stride, Isa isa) {
    const int64_t shift = phase - pad;  // source column of x = 0
    const int64_t begin = shift >= 0 ? 0 : std::min(pitch, (-shift + stride - 1) / stride);
    const int64_t end =
        columns > shift ? std::min(pitch, (columns - shift + stride - 1) / stride) : 0;
    for (int64_t x = 0; x < std::min(begin, pitch); ++x) dst[x] = 0.0f;
    if (end > begin)
        copy_strided(source + (shift + begin * stride) * column_stride, dst + begin, end - begin,
                     stride * column_stride, isa);
    for (int64_t x = std::max(begin, end); x < pitch; ++x) dst[x] = 0.0f;
}

template <typename T>
void copy_all_panels(const PanelCopyOf<T>& copy, Isa isa) {
    for (int64_t first = 0, panel = 0; first < copy.count; first += copy.width, ++panel) {
        const int64_t count = std::min(copy.width, copy.count - first);
        T* dst = copy.dst + panel * copy.panel_stride;
        NextPanel<T> next{copy.next, copy.next_channels};
        if (first + copy.width < copy.count) {
            const bool full = first + 2 * copy.width <= copy.count;  // as wide as this one
            next = {copy.source + (first + copy.width) * copy.axis_stride,
                    full ? copy.channels : 0};
        }
        for (int64_t tap = 0; tap < copy.taps; ++tap) {
            copy_block(copy.source + first * copy.axis_stride + copy.tap_offsets[tap], dst, count,
                       copy.width, copy.channels, copy.axis_stride, copy.channel_stride, next, isa);
            dst += copy.channels * copy.width;
        }
    }
}

}  // namespace

void copy_panels(const PanelCopyOf<float>& copy, Isa isa) noexcept { copy_all_panels(copy, isa); }
void copy_panels(const PanelCopyOf<double>& copy, Isa isa) noexcept { copy_all_panels(copy, isa); }

namespace {

/// Copies one channel: every plane, every row.
void copy_channel(const ImageCopy& copy, const float* channel, int64_t top, float* dst, Isa isa) {
    for (int64_t phase_y = 0; phase_y < copy.planes_rows; ++phase_y)
        for (int64_t phase_x = 0; phase_x < copy.planes_columns; ++phase_x)
            for (int64_t row = 0; row < copy.plane_rows; ++row, dst += copy.pitch) {
                const int64_t y = top + row * copy.stride_rows + phase_y;
                if (y < 0 || y >= copy.source_rows) {
                    std::fill(dst, dst + copy.pitch, 0.0f);
                    continue;
                }
                copy_row(channel + y * copy.source_row, dst, copy.pitch, phase_x,
                         copy.stride_columns, copy.pad_columns, copy.source_columns,
                         copy.source_column, isa);
            }
}

/// The bits of lanes [first, last) of 16.
__mmask16 lane_bits(int64_t first, int64_t last) {
    first = std::clamp<int64_t>(first, 0, 16);
    last = std::clamp<int64_t>(last, 0, 16);
    return last > first ? static_cast<__mmask16>((0xffffu >> (16 - (last - first))) << first)
                        : __mmask16{0};
}

/// The same for column stride 1 and steps of 1 or 2, sixteen columns at a time: what lies outside
/// is masked off, so that short rows cost a few instructions. Rows of one block of columns follow
/// each other.
__attribute__((target("avx512f"))) void copy_channel_avx512(const ImageCopy& copy,
                                                            const float* channel, int64_t top,
                                                            float* dst) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const int64_t step = copy.stride_columns;
    for (int64_t phase_y = 0; phase_y < copy.planes_rows; ++phase_y)
        for (int64_t phase_x = 0; phase_x < copy.planes_columns; ++phase_x, dst += copy.plane())
            for (int64_t x = 0; x < copy.pitch; x += 16) {
                const int64_t column =
                    phase_x - copy.pad_columns + x * step;  // of lane 0 in the source
                const __mmask16 store = lane_bits(0, copy.pitch - x);
                // With a step of 2 the last odd column is not needed and may not exist.
                const int64_t end = std::min(copy.source_columns - column,
                                             step == 1 ? 16 : 2 * (copy.pitch - x) - 1);
                const __mmask16 low = lane_bits(-column, end),
                                high = lane_bits(-column - 16, end - 16);
                for (int64_t row = 0; row < copy.plane_rows; ++row) {
                    const int64_t y = top + row * copy.stride_rows + phase_y;
                    __m512 value = _mm512_setzero_ps();
                    if (y >= 0 && y < copy.source_rows) {
                        const float* from = channel + y * copy.source_row + column;
                        value = _mm512_maskz_loadu_ps(low, from);
                        if (step == 2)
                            value = _mm512_permutex2var_ps(value, even,
                                                           _mm512_maskz_loadu_ps(high, from + 16));
                    }
                    _mm512_mask_storeu_ps(dst + row * copy.pitch + x, store, value);
                }
            }
}

}  // namespace

void copy_image(const ImageCopy& copy, const float* source, int64_t first_row, float* image,
                Isa isa) noexcept {
    const int64_t top = first_row * copy.stride_rows - copy.pad_rows;
    const bool vectors = isa == Isa::avx512 && copy.source_column == 1 && copy.stride_columns <= 2;
    for (int64_t i = 0; i < copy.images; ++i)
        for (int64_t c = 0; c < copy.channels; ++c) {
            const float* channel = source + i * copy.source_image + c * copy.source_channel;
            float* dst = image + i * copy.image_size + c * copy.channel_stride;
            if (vectors)
                copy_channel_avx512(copy, channel, top, dst);
            else
                copy_channel(copy, channel, top, dst, isa);
        }
}

namespace {

void unpack_pitched(const Unpack& u, const float* product, float* dst, int64_t first_row,
                    int64_t rows) {
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

void unpack_transposed(const Unpack& u, const float* product, float* dst, int64_t first_row,
                       int64_t rows) {
    constexpr int64_t kBlock = 16;  // channels and columns of one square: both sides stay in L1
    for (int64_t y = 0; y < rows; ++y)
        for (int64_t x0 = 0; x0 < u.columns; x0 += kBlock)
            for (int64_t c0 = 0; c0 < u.channels; c0 += kBlock) {
                const int64_t x1 = std::min(u.columns, x0 + kBlock),
                              c1 = std::min(u.channels, c0 + kBlock);
                for (int64_t co = c0; co < c1; ++co) {
                    const float* from = product + y * u.pitch * u.product_row + co;
                    float* to = dst + co * u.dst_channel + (first_row + y) * u.dst_row;
                    for (int64_t x = x0; x < x1; ++x)
                        to[x * u.dst_column] = from[x * u.product_row];
                }
            }
}

void unpack_phases(const Unpack& u, const float* product, float* dst, int64_t first_row,
                   int64_t rows) {
    // first_row and rows count output rows of a phase: dst rows first_row * phase_rows + phase.
    for (int64_t co = 0; co < u.channels; ++co)
        for (int64_t y = 0; y < rows; ++y)
            for (int64_t phase_y = 0; phase_y < u.phase_rows; ++phase_y) {
                const int64_t out_y = (first_row + y) * u.phase_rows + phase_y;
                if (out_y >= u.rows) continue;
                float* to = dst + co * u.dst_channel + out_y * u.dst_row;
                const float* from = product + phase_y * u.phase_columns * u.phase_size +
                                    co * u.product_row + y * u.pitch;
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
                    to[x * u.dst_column] =
                        from[x % u.phase_columns * u.phase_size + x / u.phase_columns];
            }
}

}  // namespace

void unpack_product(const Unpack& unpack, const float* product, float* dst, int64_t first_row,
                    int64_t rows) noexcept {
    for (int64_t i = 0; i < unpack.images;
         ++i, product += unpack.product_image, dst += unpack.dst_image) {
        switch (unpack.kind) {
            case UnpackKind::none: break;
            case UnpackKind::pitched: unpack_pitched(unpack, product, dst, first_row, rows); break;
            case UnpackKind::transposed:
                unpack_transposed(unpack, product, dst, first_row, rows);
                break;
            case UnpackKind::phases: unpack_phases(unpack, product, dst, first_row, rows); break;
        }
    }
}

}  // namespace whet::jit
