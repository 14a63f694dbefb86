// SPDX-License-Identifier: Apache-2.0
// A site: the slot of one operation, and the table that finds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "runtime/dispatch/record.hpp"

/// The C ABI's handle. Lives as long as the process. The first cache line is what a call reads;
/// nobody writes it on a hit. `record` is written by the tuner (release) and by a caller whose
/// check failed (compare-exchange to null).
struct alignas(64) whet_site {
    std::atomic<const whet::runtime::Record*> record{nullptr};
    std::atomic<const whet::runtime::Record*> challenger{
        nullptr};  ///< on trial: sampled calls alternate
    std::atomic<uint32_t> sample_period{
        0};              ///< calls between two samples of one thread; 0: not known yet
    uint32_t index = 0;  ///< of the per-thread counters
    uint32_t operand_count = 0;
    bool degenerate = false;  ///< nothing to compute: always the fallback, never tuned
    std::atomic<bool> evicted{false};

    // Cold from here on.
    std::atomic<whet_original> original{nullptr};
    std::atomic<void*> original_context{nullptr};
    whet_op op{};  ///< canonical
    uint64_t id = 0;
    uint64_t family = 0;
};

namespace whet::runtime {

/// Finds sites by operation: open addressing, lock-free look-up, insertion under a mutex, growth by
/// a new table (the old one is kept until the process ends: a reader may be in it; the sum of old
/// tables is smaller than the new one).
class SiteTable {
public:
    /// Handles that may exist, as a multiple of the budget of tuned sites: room for what became
    /// cold.
    static constexpr uint32_t kHandlesPerTunedSite = 2;

    explicit SiteTable(uint32_t budget_sites);

    /// The site of a canonical operation. Two threads that meet a new operation get the same site.
    /// out_of_budget: all handles are given away.
    base::Result<whet_site*> find_or_make(const whet_op& canonical_op);
    /// Only the look-up; null when unknown. Lock-free.
    whet_site* find(const whet_op& canonical_op, uint64_t id) const noexcept;

    /// Sites [0, size()) exist; site(i) never changes.
    uint32_t size() const noexcept { return count_.load(std::memory_order_acquire); }
    whet_site* site(uint32_t index) const noexcept {
        return sites_[index].load(std::memory_order_acquire);
    }
    uint32_t capacity() const noexcept { return capacity_; }
    uint32_t budget() const noexcept { return budget_; }
    std::mutex& mutex() noexcept { return mutex_; }

private:
    struct Slot {
        std::atomic<uint64_t> id{0};
        std::atomic<whet_site*> site{nullptr};
    };
    struct Table {
        explicit Table(size_t slot_count) : mask(slot_count - 1), slots(new Slot[slot_count]) {}
        size_t mask;
        std::unique_ptr<Slot[]> slots;
    };

    static void insert(Table& table, uint64_t id, whet_site* site) noexcept;

    const uint32_t budget_, capacity_;
    std::mutex mutex_;
    std::atomic<Table*> table_;
    std::vector<std::unique_ptr<Table>> tables_;
    std::unique_ptr<std::atomic<whet_site*>[]> sites_;
    std::atomic<uint32_t> count_{0};
};

}  // namespace whet::runtime
