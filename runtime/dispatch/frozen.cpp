// SPDX-License-Identifier: Apache-2.0
// The registry of frozen ranges and the life of packed copies.
#include "runtime/dispatch/frozen.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/dispatch/operation.hpp"

namespace whet::runtime {
namespace {

using base::Code;
using base::make_error;

bool membarrier(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

std::unique_ptr<PackSet::Table> PackSet::make_table(size_t slot_count) {
    auto table = std::make_unique<Table>();
    table->mask = slot_count - 1;
    table->slots = std::make_unique<Slot[]>(slot_count);
    return table;
}

PackSet::Slot& PackSet::slot_for(Table& table, const void* pointer) {
    size_t at = slot_of(pointer) & table.mask;
    for (;; at = (at + 1) & table.mask) {
        const void* const key = table.slots[at].key.load(std::memory_order_relaxed);
        if (!key || key == pointer) return table.slots[at];
    }
}

void PackSet::set(const void* pointer, void* packed) {
    Table* table = table_.load(std::memory_order_relaxed);
    if (2 * (table->used + 1) > table->mask + 1) {
        auto larger = make_table(2 * (table->mask + 1));
        for (size_t i = 0; i <= table->mask; ++i) {
            const void* const key = table->slots[i].key.load(std::memory_order_relaxed);
            void* const value = table->slots[i].packed.load(std::memory_order_relaxed);
            if (!key || !value) continue;
            Slot& slot = slot_for(*larger, key);
            slot.packed.store(value, std::memory_order_relaxed);
            slot.key.store(key, std::memory_order_relaxed);
            ++larger->used;
        }
        table = larger.get();
        tables_.push_back(std::move(larger));
        table_.store(table, std::memory_order_release);
    }
    Slot& slot = slot_for(*table, pointer);
    slot.packed.store(packed, std::memory_order_release);
    if (!slot.key.load(std::memory_order_relaxed)) {
        ++table->used;
        slot.key.store(pointer, std::memory_order_release);
    }
    // A reader that still holds an older table may miss or find what was there: retired copies
    // outlive such a call.
    for (auto& old : tables_) {
        if (old.get() == table) continue;
        Slot& stale = slot_for(*old, pointer);
        if (stale.key.load(std::memory_order_relaxed) == pointer)
            stale.packed.store(packed, std::memory_order_release);
    }
}

std::vector<const void*> PackSet::keys() const {
    std::vector<const void*> keys;
    const Table& table = *table_.load(std::memory_order_acquire);
    for (size_t i = 0; i <= table.mask; ++i) {
        const void* const key = table.slots[i].key.load(std::memory_order_acquire);
        if (key && table.slots[i].packed.load(std::memory_order_acquire)) keys.push_back(key);
    }
    return keys;
}

FrozenRegistry::FrozenRegistry(int64_t budget_bytes)
    : budget_(budget_bytes),
      barrier_works_(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)) {}

size_t FrozenRegistry::budget_bytes() const noexcept {
    if (budget_ >= 0) return static_cast<size_t>(budget_);
    // Packing may pad a weight's edge: a sixteenth more than its own bytes is still "as many as are
    // frozen".
    const size_t follows = frozen_bytes() + frozen_bytes() / 16 + 65536;
    const int64_t most = most_bytes_.load(std::memory_order_relaxed);
    return most >= 0 ? std::min(follows, static_cast<size_t>(most)) : follows;
}

base::Result<void> FrozenRegistry::freeze(const void* pointer, size_t bytes) {
    if (!pointer || bytes == 0) return make_error(Code::invalid_argument, "got no bytes to freeze");
    const auto* const begin = static_cast<const std::byte*>(pointer);
    if (reinterpret_cast<uintptr_t>(begin) + bytes < bytes) {
        return make_error(Code::invalid_argument, "got a range past the end of the address space");
    }
    std::lock_guard lock(ranges_mutex_);
    const auto [it, fresh] = ranges_.try_emplace(begin, Range{begin + bytes, 1});
    if (!fresh) {
        if (it->second.end != begin + bytes) {
            return make_error(Code::invalid_argument,
                              "got %zu bytes at an address frozen with %zu bytes", bytes,
                              static_cast<size_t>(it->second.end - begin));
        }
        ++it->second.promises;
        return {};
    }
    frozen_bytes_ += bytes;
    generation_.fetch_add(1, std::memory_order_release);
    return {};
}

base::Result<void> FrozenRegistry::thaw(const void* pointer) {
    const auto* const begin = static_cast<const std::byte*>(pointer);
    std::lock_guard packing(packing_mutex_);
    std::lock_guard lock(mutex_);
    std::unique_lock ranges(ranges_mutex_);
    const auto it = ranges_.find(begin);
    if (it == ranges_.end())
        return make_error(Code::not_found, "got an address that no frozen range begins at");
    if (--it->second.promises > 0) return {};
    const std::byte* const end = it->second.end;
    frozen_bytes_ -= static_cast<size_t>(end - begin);
    ranges_.erase(it);
    generation_.fetch_add(1, std::memory_order_release);
    ranges.unlock();
    const size_t first_retired = retired_.size();
    for (auto& [id, set] : sets_) {
        for (const void* key : set->keys()) {
            const auto* const at = static_cast<const std::byte*>(key);
            if (at >= begin && at < end) retire_locked(*set, key);
        }
    }
    collect_readers_locked(first_retired);
    return {};
}

bool FrozenRegistry::contains(const void* pointer, size_t bytes) const noexcept {
    std::lock_guard lock(ranges_mutex_);
    return contains_locked(pointer, bytes);
}

bool FrozenRegistry::contains_locked(const void* pointer, size_t bytes) const noexcept {
    const auto* const begin = static_cast<const std::byte*>(pointer);
    auto it = ranges_.upper_bound(begin);
    // Ranges may nest (a model and a slice of it): look back a few.
    for (int back = 0; back < 4 && it != ranges_.begin(); ++back) {
        --it;
        if (it->second.end >= begin + bytes) return true;
    }
    return false;
}

PackSet* FrozenRegistry::set_of(const jit::PackLayout& layout) {
    std::lock_guard lock(mutex_);
    PackSet*& set = sets_[layout.id];
    if (!set) set = new PackSet(layout.id, layout.bytes);
    return set;
}

base::Result<void> FrozenRegistry::pack(const Record& record, int operand, const void* source) {
    PackSet& set = *record.packs[operand];
    const size_t source_bytes =
        static_cast<size_t>(element_span(record.plan.op.operands[operand])) *
        element_bytes(record.plan.op.operands[operand]);
    std::lock_guard packing(packing_mutex_);
    {
        std::lock_guard lock(mutex_);
        if (!contains(source, source_bytes)) return make_error(Code::not_found, "no longer frozen");
        if (set.find(source)) return {};
        const size_t budget = budget_bytes();
        if (packed_bytes() + set.bytes > budget) {
            return make_error(Code::out_of_budget,
                              "packed operands need %zu bytes more, %zu of %zu are used", set.bytes,
                              packed_bytes(), budget);
        }
    }
    void* packed = nullptr;
    {
        std::lock_guard lock(mutex_);
        packed = arena_.allocate(set.bytes);
    }
    if (!packed)
        return make_error(Code::out_of_budget, "no memory for %zu packed bytes", set.bytes);
    jit::pack_frozen(record.plan, operand, source, packed);
    std::lock_guard lock(mutex_);
    set.set(source, packed);
    packed_bytes_ += set.bytes;
    return {};
}

void FrozenRegistry::drop_set(PackSet* set) {
    std::lock_guard lock(mutex_);
    const size_t first_retired = retired_.size();
    for (const void* key : set->keys()) retire_locked(*set, key);
    collect_readers_locked(first_retired);
}

void FrozenRegistry::retire_locked(PackSet& set, const void* key) {
    void* const memory = const_cast<void*>(set.find(key));
    if (!memory) return;
    set.set(key, nullptr);
    packed_bytes_ -= set.bytes;
    retired_.push_back({memory, set.bytes, {}});
}

void FrozenRegistry::collect_readers_locked(size_t first_retired) {
    if (first_retired == retired_.size()) return;
    // After the barrier every thread either marked its call as begun, or will find the copy gone.
    if (!barrier_works_ || !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        retired_.resize(first_retired);  // cannot tell who reads: the copies stay mapped for ever
        return;
    }
    std::vector<std::pair<ThreadBlock*, uint32_t>> readers;
    for (ThreadBlock* block = first_block(); block; block = block->next) {
        const uint32_t count = block->packed_calls.load(std::memory_order_acquire);
        if (count & 1) readers.emplace_back(block, count);
    }
    for (size_t i = first_retired; i < retired_.size(); ++i) retired_[i].readers = readers;
}

void FrozenRegistry::reclaim() {
    std::lock_guard lock(mutex_);
    std::erase_if(retired_, [this](Retired& retired) {
        for (const auto& [block, count] : retired.readers) {
            if (block->packed_calls.load(std::memory_order_acquire) == count) return false;
        }
        arena_.release(retired.memory, retired.bytes);
        return true;
    });
}

}  // namespace whet::runtime
