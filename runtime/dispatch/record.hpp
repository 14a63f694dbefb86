// SPDX-License-Identifier: Apache-2.0
// What a site runs: plan, code and packed operands as one immutable record, published by one
// pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "jit/plan/plan.hpp"

namespace whet::runtime {

class PackSet;

/// Immutable after publication but for the counter of its checks. Records are never freed: a thread
/// may still run one long after it was replaced. Their number is bounded by the tuner's hysteresis
/// and by the code budget.
struct Record {
    jit::Plan plan;
    std::vector<jit::MicrokernelFunction>
        functions;  ///< one per plan.kernels; empty for the portable level
    PackSet* packs[WHET_MAX_OPERANDS] =
        {};                  ///< where the packed copies of frozen operands are looked up
    uint32_t pack_mask = 0;  ///< bit i: operand i comes packed
    size_t scratch_bytes = 0;
    std::string schedule;  ///< as text
    uint64_t schedule_hash = 0;
    const Record* baseline = nullptr;  ///< where to go back to; null: the original
    bool exact_bits = true;            ///< results equal the consistent reference bit for bit
    /// Calls that were compared with the reference so far; grows only.
    mutable std::atomic<uint32_t> checks{0};
};

}  // namespace whet::runtime
