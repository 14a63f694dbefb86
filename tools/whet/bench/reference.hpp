// SPDX-License-Identifier: Apache-2.0
// The bench's own naive operators: the original where no peer is at hand, and a check of results.
#pragma once

#include "tools/whet/bench/peer.h"

namespace whet::bench {

/// Computes a case on compact operands; plain loops in double precision. bias may be null.
void compute_reference(const bench_shape& shape, float* dst, const float* a, const float* b,
                       const float* bias);

}  // namespace whet::bench
