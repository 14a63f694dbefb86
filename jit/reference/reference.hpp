// SPDX-License-Identifier: Apache-2.0
// Naive kernels: the oracle of every test and of verification, and the one tolerance function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <whet/whet.h>

namespace whet::jit {

/// Computes the whole operation by the `consistent` rules (numerics.py), bit for bit; dst is read
/// as the rules say. Slow: one fmaf per product. data: one pointer per operand.
void reference_consistent(const whet_op& op, void* const* data) noexcept;

/// One output element by the `consistent` rules, a value of the operation's type; `index` has one
/// entry per axis of dst.
double reference_consistent_element(const whet_op& op, void* const* data,
                                    const int64_t* index) noexcept;

/// One output element from the same bytes in a wider type (f32: f64, f64: 64 bits of mantissa), and
/// the sum of |products| (the condition of the sum).
struct ExactElement {
    double value = 0;
    double magnitude = 0;
};
ExactElement reference_exact_element(const whet_op& op, void* const* data,
                                     const int64_t* index) noexcept;

/// The largest |got - exact| that a correct implementation in any order may show: K-scaled,
/// (depth * eps + eps) * magnitude + smallest normal, with a factor for the operation's own
/// functions (softmax: exp).
double tolerance(const whet_op& op, const ExactElement& exact) noexcept;

/// The length of the longest sum that one output element takes.
int64_t reduction_depth(const whet_op& op) noexcept;

}  // namespace whet::jit
