// SPDX-License-Identifier: Apache-2.0
// Timing the original against a plan in the background, on private buffers: weights cold,
// activations warm.
#pragma once

#include <cstddef>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "runtime/dispatch/record.hpp"

namespace whet::runtime {

struct BackgroundTimes {
    double original_ns = 0, plan_ns = 0;  ///< medians of one call
    double ratio = 1, low = 1, high = 1;  ///< original / plan, from the median of paired log-ratios
    int quads = 0;
};

/// Keeps its memory from one measurement to the next. One thread.
class BackgroundTimer {
public:
    ~BackgroundTimer();
    /// Runs pairs in ABBA and BAAB order in turn until the interval is narrow or `most_ns` are
    /// over. The weights are rotated over copies that together exceed `cold_bytes`. out_of_budget:
    /// the operands need more than `most_bytes`.
    base::Result<BackgroundTimes> compare(const whet_op& op, whet_original original, void* context,
                                          const Record& record, size_t cold_bytes,
                                          size_t most_bytes, double most_ns);

private:
    struct Block {
        std::byte* begin = nullptr;
        size_t bytes = 0;
    };
    static base::Result<std::byte*> memory_of(Block& block, size_t bytes, bool huge_pages);
    Block operands_;
    Block packed_;  ///< on huge pages, as the program's packed operands are
};

}  // namespace whet::runtime
