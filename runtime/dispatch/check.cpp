// SPDX-License-Identifier: Apache-2.0
// Spot checks and checked mode.
#include "runtime/dispatch/check.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/log.hpp"
#include "jit/reference/reference.hpp"
#include "runtime/dispatch/operation.hpp"

namespace whet::runtime {
namespace {

bool same_value(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
           (std::isnan(a) && std::isnan(b));
}

/// Calls body(offset in elements) for every element of a view, last axis fastest.
template <typename Body>
void for_each_offset(const whet_view& view, Body body) {
    int64_t index[WHET_MAX_RANK] = {};
    const int64_t count = element_count(view);
    int64_t offset = 0;
    for (int64_t i = 0; i < count; ++i) {
        body(offset, index);
        for (int axis = view.rank - 1; axis >= 0; --axis) {
            offset += view.strides[axis];
            if (++index[axis] < view.extents[axis]) break;
            offset -= view.strides[axis] * view.extents[axis];
            index[axis] = 0;
        }
    }
}

/// Calls body(offset in elements, length) for every stretch of a view that lies in one piece: its
/// rows, else its elements. Copying whole results element by element would be felt.
template <typename Body>
void for_each_stretch(const whet_view& view, Body body) {
    whet_view starts = view;
    const int last = view.rank - 1;
    const bool rows = last >= 0 && (view.strides[last] == 1 || view.extents[last] == 1);
    if (rows) starts.rank = last;
    const int64_t length = rows ? view.extents[last] : 1;
    for_each_offset(starts, [&](int64_t offset, const int64_t*) { body(offset, length); });
}

/// Copies dst's elements to a compact array, or back.
void gather(const whet_view& view, const float* from, float* to) {
    for_each_stretch(view, [&](int64_t offset, int64_t length) {
        std::memcpy(to, from + offset, static_cast<size_t>(length) * sizeof(float));
        to += length;
    });
}
void scatter(const whet_view& view, const float* from, float* to) {
    for_each_stretch(view, [&](int64_t offset, int64_t length) {
        std::memcpy(to + offset, from, static_cast<size_t>(length) * sizeof(float));
        from += length;
    });
}

}  // namespace

SpotCheck::SpotCheck(const whet_op& op, void* const* operands, ThreadBlock& block)
    : op_(op), operands_(operands) {
    const whet_view& dst = op.operands[WHET_DST];
    if (op.beta != 0) {
        saved_ = reinterpret_cast<float*>(
            block.save_of(static_cast<size_t>(element_count(dst)) * sizeof(float)));
        if (saved_) gather(dst, static_cast<const float*>(operands[WHET_DST]), saved_);
    }
    const uint32_t edge = block.next_random();
    for (int e = 0; e < kElements; ++e) {
        int64_t index[WHET_MAX_RANK] = {}, offset = 0;
        for (int i = 0; i < dst.rank; ++i) {
            const bool at_edge = e == 1 && (edge >> (i & 1) & 1);
            index[i] = at_edge ? dst.extents[i] - 1 : block.next_random() % dst.extents[i];
            offset += index[i] * dst.strides[i];
        }
        offsets_[count_] = offset;
        expected_[count_++] = jit::reference_consistent_element(op, operands, index);
    }
}

bool SpotCheck::holds() const noexcept {
    const auto* const dst = static_cast<const float*>(operands_[WHET_DST]);
    for (int e = 0; e < count_; ++e) {
        if (!same_value(dst[offsets_[e]], expected_[e])) return false;
    }
    return true;
}

void SpotCheck::restore() noexcept {
    if (saved_) scatter(op_.operands[WHET_DST], saved_, static_cast<float*>(operands_[WHET_DST]));
}

whet_status call_compared(const Record& record, whet_site* site, void* const* operands,
                          ThreadBlock& block, whet_fallback fallback, void* user, RunRecord run) {
    const whet_op& op = site->op;
    const whet_view& view = op.operands[WHET_DST];
    const auto count = static_cast<size_t>(element_count(view));
    auto* const dst = static_cast<float*>(operands[WHET_DST]);
    auto* const before = reinterpret_cast<float*>(block.save_of(2 * count * sizeof(float)));
    const auto run_original = [&] {
        fallback ? fallback(user) : jit::reference_consistent(op, operands);
    };
    if (!before) {
        run_original();
        return WHET_OK;
    }
    float* const ours = before + count;
    gather(view, dst, before);
    const bool ran = run(record, site, operands, block);
    if (ran) gather(view, dst, ours);
    scatter(view, before, dst);
    run_original();
    if (!ran) return WHET_OK;
    size_t wrong = 0, at = 0;
    int64_t first[WHET_MAX_RANK] = {};
    for_each_offset(view, [&](int64_t offset, const int64_t* index) {
        const float mine = ours[at++], theirs = dst[offset];
        if (same_value(mine, theirs) || std::fabs(mine - theirs) <= 1e-6f * std::fabs(theirs))
            return;
        if (!std::isfinite(mine) && !std::isfinite(theirs))
            return;  // overflow and NaN may come in either order
        // The reference reads old dst where beta counts: give it the value from before the call.
        const float answer = theirs;
        dst[offset] = before[at - 1];
        const jit::ExactElement exact = jit::reference_exact_element(op, operands, index);
        dst[offset] = answer;
        const double limit = jit::tolerance(op, exact);
        if (std::fabs(static_cast<double>(mine) - exact.value) <= limit) return;
        if (wrong++ == 0) std::memcpy(first, index, sizeof first);
    });
    record.checks.fetch_add(1, std::memory_order_relaxed);
    if (wrong == 0) return WHET_OK;
    std::string place;
    for (int i = 0; i < view.rank; ++i) place += (i ? "," : "") + std::to_string(first[i]);
    base::log_event(base::Level::error, "check", "a plan's answer differs from the original's",
                    {{"op", operation_text(op)},
                     {"schedule", record.schedule},
                     {"elements", wrong},
                     {"first", place}});
    const Record* expected = &record;
    site->record.compare_exchange_strong(expected, nullptr);
    block.push({site, &record, nullptr, 0, SampleKind::wrong});
    return WHET_OK;
}

}  // namespace whet::runtime
