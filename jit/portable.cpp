// SPDX-License-Identifier: Apache-2.0
// The meaning of microkernels, element by element.
#include "jit/portable.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace whet::jit {
namespace {

constexpr int64_t kRowLanes = 64;  // strided chains of a row sum (numerics.py, ROW_LANES)
constexpr int64_t kRowSegment =
    8192;  // elements of one segment of a row sum (numerics.py, ROW_SEGMENT)

template <typename T>
int64_t scalar_offset(const MicrokernelSpec& spec, const TileArgsOf<T>& args, int64_t r,
                      int64_t i) {
    switch (spec.scalar) {
        case ScalarForm::rows_strided: return r * args.scalar_row + i;
        case ScalarForm::packed: return r + i * args.scalar_k;
        case ScalarForm::general: return r * args.scalar_row + i * args.scalar_k;
        case ScalarForm::uniform: return i * args.scalar_k;
    }
    return 0;
}

template <typename T>
int64_t vector_offset(const MicrokernelSpec& spec, const TileArgsOf<T>& args, int64_t r, int64_t i,
                      int64_t lane) {
    switch (spec.vector) {
        case VectorForm::strided: return i * args.vector_k + lane;
        case VectorForm::packed: return i * spec.vectors * spec.lanes() + lane;
        case VectorForm::row_strided: return r * args.vector_row + i * args.vector_k + lane;
        case VectorForm::transposed: return lane * args.vector_row + i;
    }
    return 0;
}

template <typename T>
T start_value(const TileArgsOf<T>& args, int64_t t, int64_t r, int64_t lane, T dst) {
    switch (args.start) {
        case kStartDst: return dst;
        case kStartScaled: return args.beta * dst;
        case kStartBiasLane: return args.bias[lane];
        case kStartBiasRow: return args.bias[t * args.bias_tile + r];
        default: return 0;
    }
}

template <typename T>
T accumulate(const MicrokernelSpec& spec, const TileArgsOf<T>& args, int64_t t, int64_t r,
             int64_t lane) {
    T sum = 0;
    const int64_t taps = spec.taps ? args.taps : 1;
    const int64_t steps = spec.taps == 2 ? 1 : args.k;
    for (int64_t tap = 0; tap < taps; ++tap) {
        const T* scalar =
            args.scalar + t * args.scalar_tile + (spec.taps ? args.tap_offsets[2 * tap] : 0);
        const T* vector =
            args.vector + t * args.vector_tile + (spec.taps ? args.tap_offsets[2 * tap + 1] : 0);
        for (int64_t i = 0; i < steps; ++i) {
            sum = std::fma(scalar[scalar_offset(spec, args, r, i)],
                           vector[vector_offset(spec, args, r, i, lane)], sum);
        }
    }
    return sum;
}

/// The copy of a transposed operand that a packing microkernel leaves.
template <typename T>
void pack_panel(const MicrokernelSpec& spec, const TileArgsOf<T>& args, int64_t t) {
    for (int64_t i = 0; i < args.k; ++i) {
        for (int64_t lane = 0; lane < spec.lanes(); ++lane) {
            args.panel[i * args.panel_k + lane] =
                args.vector[t * args.vector_tile + vector_offset(spec, args, 0, i, lane)];
        }
    }
}

template <typename T>
void run_tile(const MicrokernelSpec& spec, const TileArgsOf<T>& args) {
    const int64_t first_lane = spec.vector == VectorForm::transposed ? args.first_lane : 0;
    for (int64_t t = 0; t < args.tiles; ++t) {
        if (spec.packs) pack_panel(spec, args, t);
        for (int64_t r = 0; r < spec.rows; ++r) {
            for (int64_t lane = first_lane; lane < args.lanes; ++lane) {
                T& dst = args.dst[t * args.dst_tile + r * args.dst_row + lane];
                const bool reads_dst = args.start == kStartDst || args.start == kStartScaled;
                const T start = start_value<T>(args, t, r, lane, reads_dst ? dst : 0);
                T value = std::fma(args.alpha, accumulate(spec, args, t, r, lane), start);
                if (args.finish && spec.epilogue == Epilogue::relu) value = relu(value);
                dst = value;
            }
        }
    }
}

float segment_sum(const float* values, int64_t count) {
    float lanes[kRowLanes] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i % kRowLanes] += values[i];
    for (int64_t n = kRowLanes / 2; n >= 1; n /= 2) {
        for (int64_t i = 0; i < n; ++i) lanes[i] += lanes[i + n];
    }
    return lanes[0];
}

void run_softmax(const SoftmaxArgs& args) {
    for (int64_t row = 0; row < args.rows; ++row) {
        const float* src = args.src + row * args.src_row;
        float* dst = args.dst + row * args.dst_row;
        float maximum = -std::numeric_limits<float>::infinity();
        for (int64_t i = 0; i < args.columns; ++i) maximum = maximum > src[i] ? maximum : src[i];
        for (int64_t i = 0; i < args.columns; ++i) dst[i] = softmax_exp(src[i] - maximum);
        float total = 0.0f;
        for (int64_t i = 0; i < args.columns; i += kRowSegment) {
            total += segment_sum(dst + i, std::min(kRowSegment, args.columns - i));
        }
        for (int64_t i = 0; i < args.columns; ++i) dst[i] /= total;
    }
}

}  // namespace

float relu(float x) noexcept { return 0.0f > x ? 0.0f : x; }
double relu(double x) noexcept { return 0.0 > x ? 0.0 : x; }

float softmax_exp(float x) noexcept {
    using C = ExpConstants;
    x = C::kLowest > x ? C::kLowest : x;  // NaN stays
    const float shifted = std::fma(x, C::kLog2E, C::kMagic);
    const float n = shifted - C::kMagic;
    float r = std::fma(n, -C::kLn2High, x);
    r = std::fma(n, -C::kLn2Low, r);
    float p = C::kPolynomial[4];
    for (int i = 3; i >= 0; --i) p = std::fma(p, r, C::kPolynomial[i]);
    p = std::fma(p, r, 1.0f);
    p = std::fma(p, r, 1.0f);
    const float power = std::bit_cast<float>(std::bit_cast<uint32_t>(shifted) << 23);
    return p * power * C::kDownscale;
}

void run_portable(const MicrokernelSpec& spec, const void* args) {
    if (spec.kind == MicrokernelKind::softmax) {
        run_softmax(*static_cast<const SoftmaxArgs*>(args));
    } else if (spec.element == Element::f64) {
        run_tile(spec, *static_cast<const TileArgsOf<double>*>(args));
    } else {
        run_tile(spec, *static_cast<const TileArgs*>(args));
    }
}

}  // namespace whet::jit
