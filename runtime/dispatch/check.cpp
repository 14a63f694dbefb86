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

/// Also of f32 values as f64, which keeps their bits apart.
bool same_value(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) ||
           (std::isnan(a) && std::isnan(b));
}

double value_at(const whet_view& view, const void* data, int64_t offset) {
    return view.dtype == WHET_F64 ? static_cast<const double*>(data)[offset]
                                  : static_cast<double>(static_cast<const float*>(data)[offset]);
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
void gather(const whet_view& view, const void* from, std::byte* to) {
    const auto size = static_cast<int64_t>(element_bytes(view));
    const auto* const begin = static_cast<const std::byte*>(from);
    for_each_stretch(view, [&](int64_t offset, int64_t length) {
        std::memcpy(to, begin + offset * size, static_cast<size_t>(length * size));
        to += length * size;
    });
}
void scatter(const whet_view& view, const std::byte* from, void* to) {
    const auto size = static_cast<int64_t>(element_bytes(view));
    auto* const begin = static_cast<std::byte*>(to);
    for_each_stretch(view, [&](int64_t offset, int64_t length) {
        std::memcpy(begin + offset * size, from, static_cast<size_t>(length * size));
        from += length * size;
    });
}

}  // namespace

SpotCheck::SpotCheck(const whet_op& op, void* const* operands, ThreadBlock& block)
    : op_(op), operands_(operands) {
    const whet_view& dst = op.operands[WHET_DST];
    if (op.beta != 0) {
        saved_ = block.save_of(static_cast<size_t>(element_count(dst)) * element_bytes(dst));
        if (saved_) gather(dst, operands[WHET_DST], saved_);
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
    const whet_view& dst = op_.operands[WHET_DST];
    for (int e = 0; e < count_; ++e) {
        if (!same_value(value_at(dst, operands_[WHET_DST], offsets_[e]), expected_[e]))
            return false;
    }
    return true;
}

void SpotCheck::restore() noexcept {
    if (saved_) scatter(op_.operands[WHET_DST], saved_, operands_[WHET_DST]);
}

whet_status call_compared(const Record& record, whet_site* site, void* const* operands,
                          ThreadBlock& block, whet_fallback fallback, void* user, RunRecord run) {
    const whet_op& op = site->op;
    const whet_view& view = op.operands[WHET_DST];
    const auto count = static_cast<size_t>(element_count(view));
    void* const dst = operands[WHET_DST];
    const size_t bytes = count * element_bytes(view);
    std::byte* const before = block.save_of(2 * bytes);
    const auto run_original = [&] {
        fallback ? fallback(user) : jit::reference_consistent(op, operands);
    };
    if (!before) {
        run_original();
        return WHET_OK;
    }
    std::byte* const ours = before + bytes;
    gather(view, dst, before);
    const bool ran = run(record, site, operands, block);
    if (ran) gather(view, dst, ours);
    scatter(view, before, dst);
    run_original();
    if (!ran) return WHET_OK;
    // Some units in the last place: what the order of a sum may change.
    const double near = view.dtype == WHET_F64 ? 2e-15 : 1e-6;
    const size_t size = element_bytes(view);
    int64_t at = 0;
    size_t wrong = 0;
    int64_t first[WHET_MAX_RANK] = {};
    for_each_offset(view, [&](int64_t offset, const int64_t* index) {
        const double mine = value_at(view, ours, at), theirs = value_at(view, dst, offset);
        const std::byte* const old = before + static_cast<size_t>(at++) * size;
        if (same_value(mine, theirs) || std::fabs(mine - theirs) <= near * std::fabs(theirs))
            return;
        if (!std::isfinite(mine) && !std::isfinite(theirs))
            return;  // overflow and NaN may come in either order
        // The reference reads old dst where beta counts: give it the value from before the call.
        std::byte answer[sizeof(double)];
        std::byte* const element =
            static_cast<std::byte*>(dst) + static_cast<size_t>(offset) * size;
        std::memcpy(answer, element, size);
        std::memcpy(element, old, size);
        const jit::ExactElement exact = jit::reference_exact_element(op, operands, index);
        std::memcpy(element, answer, size);
        const double limit = jit::tolerance(op, exact);
        if (std::fabs(mine - exact.value) <= limit) return;
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
