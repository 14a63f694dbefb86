// SPDX-License-Identifier: Apache-2.0
// A microkernel alone against its definition: what lets a verified schedule serve further row
// counts.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

namespace whet::runtime::forge {

/// Runs `function` on random arguments (counts, strides, start modes, every class of tail) and
/// compares all of the result with the interpreter's (jit/portable.hpp), bit for bit. Operands are
/// exactly as long as the spec lets the microkernel reach; half of them hold small integers, the
/// rest random values, NaN, infinities, -0 and subnormals. Guarded: they touch unmapped pages, so
/// that an access outside faults. About a millisecond. verify_failed: a wrong bit or a byte written
/// outside; out_of_budget: no memory.
base::Result<void> check_microkernel(const jit::MicrokernelSpec& spec,
                                     jit::MicrokernelFunction function, bool guarded,
                                     uint64_t seed);

}  // namespace whet::runtime::forge
