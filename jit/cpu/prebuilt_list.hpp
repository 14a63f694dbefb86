// SPDX-License-Identifier: Apache-2.0
// Which microkernels are made at build time.
#pragma once

#include <vector>

#include "jit/microkernel.hpp"

namespace whet::jit::cpu {

/// All specs of microkernels.bin, each once, in no particular order.
std::vector<MicrokernelSpec> prebuilt_specs();

}  // namespace whet::jit::cpu
