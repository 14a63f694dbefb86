// SPDX-License-Identifier: Apache-2.0
// Proves a plan's addresses in closed form: every read and write of every task lies in its operand
// or its scratch.
#pragma once

#include "base/status.hpp"
#include "jit/plan/plan.hpp"

namespace whet::jit {

/// Takes the extremes of every affine address over the nest's loops and compares them with the
/// operands' spans and the scratch's parts; then counts the results, whose strides must nest, so
/// that each is written once per segment. verify_failed names the side, got and allowed.
/// Independent of lowering but for the nest itself. Microseconds.
base::Result<void> prove_addresses(const Plan& plan);

}  // namespace whet::jit
