// SPDX-License-Identifier: Apache-2.0
// Frozen operands: the owner's promises, and the packed copies that live as long as a promise does.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "base/status.hpp"
#include "runtime/dispatch/packed_arena.hpp"
#include "runtime/dispatch/record.hpp"
#include "runtime/profile/thread_block.hpp"

namespace whet::runtime {

/// The packed copies in one layout, found by the operand's address. Readers are lock-free; writers
/// hold the registry's mutex. A removed copy is found no more at once; its memory goes when no call
/// can still read it.
class PackSet {
public:
    PackSet(uint64_t layout_id, size_t copy_bytes) : id(layout_id), bytes(copy_bytes) {
        tables_.push_back(make_table(16));
        table_ = tables_.back().get();
    }

    /// The copy for the operand at `pointer`, or null. Only inside a PackedCall.
    const void* find(const void* pointer) const noexcept {
        const Table& table = *table_.load(std::memory_order_acquire);
        for (size_t at = slot_of(pointer) & table.mask;; at = (at + 1) & table.mask) {
            const void* const key = table.slots[at].key.load(std::memory_order_acquire);
            if (key == pointer) return table.slots[at].packed.load(std::memory_order_acquire);
            if (!key) return nullptr;
        }
    }
    /// Registry's mutex held.
    void set(const void* pointer, void* packed);
    std::vector<const void*> keys() const;

    const uint64_t id;
    const size_t bytes;  ///< of one copy

private:
    struct Slot {
        std::atomic<const void*> key{nullptr};
        std::atomic<void*> packed{nullptr};
    };
    struct Table {
        size_t mask = 0, used = 0;
        std::unique_ptr<Slot[]> slots;
    };
    static size_t slot_of(const void* pointer) noexcept {
        return (reinterpret_cast<uintptr_t>(pointer) >> 6) * 0x9e3779b97f4a7c15ull >> 32;
    }
    static std::unique_ptr<Table> make_table(size_t slot_count);
    static Slot& slot_for(Table& table, const void* pointer);

    std::atomic<Table*> table_;
    std::vector<std::unique_ptr<Table>> tables_;  ///< old ones stay: a reader may be in them
};

/// Marks that the calling thread uses packed copies until the end of the scope.
class PackedCall {
public:
    explicit PackedCall(ThreadBlock& block) noexcept
        : block_(block), count_(block.packed_calls.load(std::memory_order_relaxed)) {
        block_.packed_calls.store(count_ + 1, std::memory_order_relaxed);
        std::atomic_signal_fence(
            std::memory_order_seq_cst);  // the processor's fence is in reclaim (membarrier)
    }
    ~PackedCall() { block_.packed_calls.store(count_ + 2, std::memory_order_release); }
    PackedCall(const PackedCall&) = delete;
    PackedCall& operator=(const PackedCall&) = delete;

private:
    ThreadBlock& block_;
    const uint32_t count_;
};

/// Thread-safe. Lock order: packing, sets, ranges.
class FrozenRegistry {
public:
    /// budget_bytes < 0: as many bytes as are frozen.
    explicit FrozenRegistry(int64_t budget_bytes);

    base::Result<void> freeze(const void* pointer, size_t bytes);
    /// Forgets the range that begins at `pointer` and every packed copy of its content. When it
    /// returns no later call uses one. Waits for a copy that is being made.
    base::Result<void> thaw(const void* pointer);

    /// Counts changes; 0 while nothing was ever frozen.
    uint64_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
    /// True when [pointer, pointer + bytes) lies in one frozen range. Takes a lock: cache the
    /// answer by generation.
    bool contains(const void* pointer, size_t bytes) const noexcept;

    /// The set of a layout; made when new. Never freed.
    PackSet* set_of(const jit::PackLayout& layout);
    /// Packs `source` for operand `operand` of the record's plan, unless it is there already.
    /// Background only. out_of_budget; not_found: no longer frozen.
    base::Result<void> pack(const Record& record, int operand, const void* source);
    /// Drops the copies of a layout that no record uses any more.
    void drop_set(PackSet* set);
    /// Frees retired copies that no call can still read. Background only.
    void reclaim();

    size_t packed_bytes() const noexcept { return packed_bytes_.load(std::memory_order_relaxed); }
    size_t frozen_bytes() const noexcept { return frozen_bytes_.load(std::memory_order_relaxed); }
    size_t budget_bytes() const noexcept;
    /// A bound on a budget that follows what is frozen (WHET_BUDGET_PACKED=auto); < 0: none.
    void set_most_bytes(int64_t bytes) noexcept {
        most_bytes_.store(bytes, std::memory_order_relaxed);
    }
    std::mutex& mutex() noexcept { return mutex_; }
    std::mutex& ranges_mutex() noexcept { return ranges_mutex_; }
    /// The copy that the parent was making is not finished here.
    void after_fork_in_child() noexcept { new (&packing_mutex_) std::mutex; }

private:
    struct Range {
        const std::byte* end;
        uint32_t promises;
    };
    struct Retired {
        void* memory;
        size_t bytes;
        std::vector<std::pair<ThreadBlock*, uint32_t>>
            readers;  ///< blocks that were inside a call, and their counts
    };

    bool contains_locked(const void* pointer, size_t bytes) const noexcept;
    void retire_locked(PackSet& set, const void* key);
    void collect_readers_locked(size_t first_retired);

    const int64_t budget_;
    std::atomic<int64_t> most_bytes_{-1};
    std::atomic<uint64_t> generation_{0};
    std::atomic<size_t> packed_bytes_{0}, frozen_bytes_{0};
    mutable std::mutex ranges_mutex_;  ///< of ranges_ alone: look-ups of callers take it
    std::mutex mutex_;                 ///< of sets_ and retired_
    std::mutex packing_mutex_;
    std::map<const std::byte*, Range> ranges_;
    std::map<uint64_t, PackSet*> sets_;
    std::vector<Retired> retired_;
    PackedArena arena_;
    bool barrier_works_ = false;
};

}  // namespace whet::runtime
