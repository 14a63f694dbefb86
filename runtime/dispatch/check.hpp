// SPDX-License-Identifier: Apache-2.0
// Comparing live calls with the reference: a few elements now and then, or every element in checked
// mode.
#pragma once

#include <cstddef>
#include <cstdint>

#include <whet/whet.h>

#include "runtime/dispatch/record.hpp"
#include "runtime/dispatch/site.hpp"
#include "runtime/profile/thread_block.hpp"

namespace whet::runtime {

/// Before a call: computes what a few elements of dst must become (old dst counts when beta is not
/// 0) and keeps a copy of what dst holds where the original would need it again. Costs a few
/// reductions of scalar code, a few microseconds.
class SpotCheck {
public:
    SpotCheck(const whet_op& op, void* const* operands, ThreadBlock& block);

    /// After the call: true when every watched element has exactly the expected bits (or both are
    /// NaN).
    bool holds() const noexcept;
    /// Puts dst back to what it was before the call, where beta is not 0.
    void restore() noexcept;

private:
    static constexpr int kElements = 2;  ///< a random one, and one on the last row or column

    const whet_op& op_;
    void* const* operands_;
    int64_t offsets_[kElements];
    double expected_[kElements];  ///< values of the operation's type
    int count_ = 0;
    std::byte* saved_ = nullptr;
};

using RunRecord = bool (*)(const Record& record, whet_site* site, void* const* operands,
                           ThreadBlock& block);

/// Checked mode: runs the record, then the original, compares all of dst within the tolerance,
/// reports a difference once per record, and leaves the original's answer in dst.
whet_status call_compared(const Record& record, whet_site* site, void* const* operands,
                          ThreadBlock& block, whet_fallback fallback, void* user, RunRecord run);

}  // namespace whet::runtime
