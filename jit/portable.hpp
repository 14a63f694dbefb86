// SPDX-License-Identifier: Apache-2.0
// The interpreter of microkernels in plain C++: the oracle of generated code, and the `portable`
// instruction-set level.
#pragma once

#include "jit/microkernel.hpp"

namespace whet::jit {

/// Runs what `spec` means on `args` (TileArgs or SoftmaxArgs by spec.kind), element by element,
/// with the bits that generated code gives on every instruction set; `spec.isa` only says the lanes
/// of a vector. The spec must pass check(). Thread-safe; slow: one std::fma per product.
void run_portable(const MicrokernelSpec& spec, const void* args);

/// relu as every epilogue computes it: `0 > x ? 0 : x`. NaN stays NaN and -0 stays -0, as in
/// vectorised PyTorch.
float relu(float x) noexcept;
double relu(double x) noexcept;

/// exp(x) for x <= 0 as softmax computes it: one sequence of f32 operations for every instruction
/// set. Largest error over all x <= 0: see softmax_exp_test.cpp. -inf gives +0, NaN gives NaN,
/// subnormal results are rounded once.
float softmax_exp(float x) noexcept;

/// The constants of softmax_exp, shared with the code generator.
struct ExpConstants {
    static constexpr float kLowest =
        -104.0f;  ///< exp of this rounds to +0; keeps the exponent field in range
    static constexpr float kLog2E = 0x1.715476p+0f;  ///< 1 / ln 2
    static constexpr float kMagic =
        12582912.0f + 191;  ///< 1.5 * 2^23 rounds to an integer; + 127 + kUpscale: exponent
    static constexpr float kLn2High =
        0x1.62e4p-1f;  ///< ln 2, upper 14 bits: n * kLn2High is exact for |n| <= 150
    static constexpr float kLn2Low = 0x1.7f7d1cp-20f;  ///< ln 2 - kLn2High
    static constexpr float kDownscale =
        0x1p-64f;  ///< the power is made 2^64 too large, so that it is never subnormal
    /// exp(r) = 1 + r (1 + r (c0 + r (c1 + ...))), |r| <= ln 2 / 2: minimax fit (Lawson's
    /// iteration, coefficients rounded one after the other and the rest fitted again), relative
    /// error 3.2e-9 before rounding.
    static constexpr float kPolynomial[5] = {0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558bp-5f,
                                             0x1.123998p-7f, 0x1.6a4e7ap-10f};
};

}  // namespace whet::jit
