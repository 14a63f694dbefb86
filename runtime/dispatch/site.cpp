// SPDX-License-Identifier: Apache-2.0
// The site table.
#include "runtime/dispatch/site.hpp"

#include <cstring>

#include "runtime/dispatch/operation.hpp"

namespace whet::runtime {
namespace {
constexpr size_t kFirstSlots = 256;  // a program has tens of shapes; grown at half full
}

SiteTable::SiteTable(uint32_t budget_sites)
    : budget_(budget_sites),
      capacity_(budget_sites * kHandlesPerTunedSite),
      sites_(new std::atomic<whet_site*>[capacity_]()) {
    tables_.push_back(std::make_unique<Table>(kFirstSlots));
    table_.store(tables_.back().get(), std::memory_order_release);
}

whet_site* SiteTable::find(const whet_op& op, uint64_t id) const noexcept {
    const Table& table = *table_.load(std::memory_order_acquire);
    for (size_t at = id & table.mask;; at = (at + 1) & table.mask) {
        whet_site* const site = table.slots[at].site.load(std::memory_order_acquire);
        if (!site) return nullptr;
        if (table.slots[at].id.load(std::memory_order_relaxed) != id) continue;
        if (std::memcmp(&site->op, &op, sizeof op) == 0) return site;
    }
}

base::Result<whet_site*> SiteTable::find_or_make(const whet_op& op) {
    const uint64_t id = operation_id(op);
    if (whet_site* const found = find(op, id)) return found;
    const auto taken = [&] {
        return base::make_error(base::Code::out_of_budget,
                                "all %u sites are taken (WHET_BUDGET_SITES)", capacity_);
    };
    if (count_.load(std::memory_order_acquire) == capacity_) return taken();  // without the lock
    std::lock_guard lock(mutex_);
    if (whet_site* const found = find(op, id)) return found;
    const uint32_t index = count_.load(std::memory_order_relaxed);
    if (index == capacity_) return taken();
    auto* const site = new whet_site;
    site->op = op;
    site->id = id;
    site->family = family_id(op);
    site->index = index;
    site->operand_count = op.operand_count;
    site->degenerate = is_degenerate(op);
    Table* table = table_.load(std::memory_order_relaxed);
    if (2 * (size_t{index} + 1) > table->mask + 1) {
        tables_.push_back(std::make_unique<Table>(2 * (table->mask + 1)));
        table = tables_.back().get();
        for (uint32_t i = 0; i < index; ++i) {
            whet_site* const old = sites_[i].load(std::memory_order_relaxed);
            insert(*table, old->id, old);
        }
        insert(*table, id, site);
        table_.store(table, std::memory_order_release);
    } else {
        insert(*table, id, site);
    }
    sites_[index].store(site, std::memory_order_release);
    count_.store(index + 1, std::memory_order_release);
    return site;
}

void SiteTable::insert(Table& table, uint64_t id, whet_site* site) noexcept {
    size_t at = id & table.mask;
    while (table.slots[at].site.load(std::memory_order_relaxed)) at = (at + 1) & table.mask;
    table.slots[at].id.store(id, std::memory_order_relaxed);
    table.slots[at].site.store(site, std::memory_order_release);
}

}  // namespace whet::runtime
