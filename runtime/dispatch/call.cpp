// SPDX-License-Identifier: Apache-2.0
// The path of a call: one record, one branch on a countdown; everything else is in the slow half.
#include <cstring>

#include <whet/whet.h>

#include "base/clock.hpp"
#include "jit/reference/reference.hpp"
#include "runtime/dispatch/check.hpp"
#include "runtime/dispatch/last_error.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/runtime.hpp"
#include "runtime/tuner/tuner.hpp"

namespace whet::runtime {
namespace {

/// One phase of a plan, shared by the operation's threads.
struct SharedPhase {
    const Record& record;
    const jit::Operands& operands;
    std::byte* scratch;
    int phase;
};

/// The tasks of thread `index`: as many as any other's, or one less.
void run_share(void* data, int index) {
    const auto& [record, operands, scratch, phase] = *static_cast<const SharedPhase*>(data);
    const jit::Plan& plan = record.plan;
    const int64_t tasks = plan.phases[static_cast<size_t>(phase)].task_count;
    const auto threads = static_cast<int64_t>(plan.op.threads);
    const int64_t first = tasks * index / threads, last = tasks * (index + 1) / threads;
    if (first == last) return;
    std::byte* const mine = scratch + plan.shared_bytes + static_cast<size_t>(index) * plan.private_bytes;
    jit::run_phase(plan, record.functions.data(), phase, operands, scratch, mine, first, last);
}

void run_tasks(const Record& record, const jit::Operands& operands, std::byte* scratch,
               const whet_executor* executor) {
    if (__builtin_expect(record.plan.op.threads > 1 && executor, 0)) {
        SharedPhase phase{record, operands, scratch, 0};
        for (; phase.phase < static_cast<int>(record.plan.phases.size()); ++phase.phase)
            executor->run(executor->self, static_cast<int>(record.plan.op.threads), run_share, &phase);
        return;
    }
    jit::run_plan(record.plan, record.functions.data(), operands, scratch);
}

/// Runs a record that needs packed copies; false when one is missing (nothing was written).
bool run_packed(const Record& record, whet_site* site, void* const* operands, ThreadBlock& block,
                std::byte* scratch) {
    PackedCall mark(block);
    jit::Operands call{operands};
    for (uint32_t i = 1; i < WHET_MAX_OPERANDS; ++i) {
        if (!(record.pack_mask >> i & 1)) continue;
        call.packed[i] = record.packs[i]->find(operands[i]);
        if (!call.packed[i]) {
            block.push({site, &record, operands[i], static_cast<float>(i), SampleKind::wants_pack});
            return false;
        }
    }
    run_tasks(record, call, scratch, block.executor);
    return true;
}

bool run_record(const Record& record, whet_site* site, void* const* operands, ThreadBlock& block) {
    std::byte* const scratch = block.scratch_of(record.scratch_bytes);
    if (!scratch && record.scratch_bytes > 0) return false;
    if (record.pack_mask) return run_packed(record, site, operands, block, scratch);
    run_tasks(record, jit::Operands{operands}, scratch, block.executor);
    return true;
}

/// Tells the tuner which weights a frozen site sees, so that they can be packed before a plan
/// serves.
void report_frozen_operands(whet_site* site, void* const* operands, ThreadBlock& block) {
    for (uint32_t i = 1; i < site->operand_count; ++i) {
        if (site->op.frozen >> i & 1) {
            block.push({site, nullptr, operands[i], static_cast<float>(i), SampleKind::wants_pack});
        }
    }
}

void run_original(const whet_site* site, void* const* operands, whet_fallback fallback,
                  void* user) {
    if (fallback) {
        fallback(user);
    } else {
        jit::reference_consistent(site->op, operands);
    }
}

/// Runs a record under comparison; repairs the answer by the original and takes the record out when
/// it was wrong.
bool run_checked_against_reference(const Record& record, whet_site* site, void* const* operands,
                                   ThreadBlock& block, whet_fallback fallback, void* user) {
    SpotCheck check(site->op, operands, block);
    if (!run_record(record, site, operands, block)) return false;
    record.checks.fetch_add(1, std::memory_order_relaxed);
    if (check.holds()) return true;
    const Record* expected = &record;
    site->record.compare_exchange_strong(expected, nullptr);
    expected = &record;
    site->challenger.compare_exchange_strong(expected, nullptr);
    block.push({site, &record, nullptr, 0, SampleKind::wrong});
    check.restore();
    run_original(site, operands, fallback, user);
    return true;
}

/// Whether this sampled call is also compared with the reference: the first calls of a record, then
/// a few.
bool due_for_check(const Record& record, ThreadBlock& block) {
    constexpr uint32_t kFirstChecks = 8;   // every one of a new record's first sampled calls
    constexpr uint32_t kLaterChecks = 63;  // mask: one in 64 sampled calls later on
    if (!record.exact_bits) return false;
    return record.checks.load(std::memory_order_relaxed) < kFirstChecks ||
           (block.next_random() & kLaterChecks) == 0;
}

uint32_t next_countdown(const whet_site* site, SiteCounter& counter, ThreadBlock& block) {
    constexpr uint32_t kFirstSamples = 16;  // of a thread at a site: every call
    constexpr uint32_t kUnknownPeriod =
        512;  // then, until the tuner knows how long a call takes (or for ever without one)
    uint32_t period = site->sample_period.load(std::memory_order_relaxed);
    if (period == 0) period = ++counter.samples < kFirstSamples ? 1 : kUnknownPeriod;
    if (period <= 1) return 0;
    // Jitter, so that a program's own period never hides a site from the samples.
    return period / 2 + block.next_random() % period;
}

__attribute__((noinline)) whet_status call_slowly(whet_site* site, void* const* operands,
                                                  whet_fallback fallback, void* user,
                                                  ThreadBlock* block) {
    Runtime& r = runtime();
    if (!block) block = make_block(r.sites.capacity());
    if (!block || !r.enabled.load(std::memory_order_relaxed) || site->degenerate) {
        run_original(site, operands, fallback, user);
        return WHET_OK;
    }
    SiteCounter& counter = block->counters[site->index];
    counter.calls.store(counter.calls.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    const bool sampled = counter.countdown == 0;
    counter.countdown = sampled ? next_countdown(site, counter, *block) : counter.countdown - 1;
    if (sampled) r.tuner->wake_at_first_call();
    const Record* record = site->record.load(std::memory_order_acquire);
    if (sampled) {
        const Record* const challenger = site->challenger.load(std::memory_order_acquire);
        if (challenger && (block->next_random() & 1)) record = challenger;
        if (!record && site->op.frozen) report_frozen_operands(site, operands, *block);
    }
    // Under `invariant` the same bits from the first call on: the reference answers until a plan
    // does.
    if (r.options.numerics == base::Numerics::invariant) fallback = nullptr;
    if (record && r.options.checked)
        return call_compared(*record, site, operands, *block, fallback, user, run_record);
    if (record && sampled && due_for_check(*record, *block)) {
        if (!run_checked_against_reference(*record, site, operands, *block, fallback, user)) {
            run_original(site, operands, fallback, user);
        }
        return WHET_OK;
    }
    const uint64_t begin = base::cycles();
    if (!record || !run_record(*record, site, operands, *block)) {
        record = nullptr;
        run_original(site, operands, fallback, user);
    }
    if (sampled) {
        const uint64_t ticks = base::cycles_after() - begin;
        block->push({site, record, nullptr, static_cast<float>(ticks), SampleKind::timed});
    }
    return WHET_OK;
}

}  // namespace
}  // namespace whet::runtime

extern "C" whet_status whet_site_call_on(whet_site* site, void* const* operands, int count,
                                         const whet_executor* executor, whet_fallback fallback,
                                         void* user) {
    using namespace whet::runtime;
    ThreadBlock* block = current_block;
    if (__builtin_expect(!block, 0)) block = make_block(runtime().sites.capacity());
    if (__builtin_expect(!block, 0)) return whet_site_call(site, operands, count, fallback, user);
    const whet_executor* const outer = block->executor;  // a fallback may call in turn
    block->executor = executor;
    const whet_status status = whet_site_call(site, operands, count, fallback, user);
    block->executor = outer;
    return status;
}

extern "C" whet_status whet_site_call(whet_site* site, void* const* operands, int count,
                                      whet_fallback fallback, void* user) {
    using namespace whet::runtime;
    if (__builtin_expect(static_cast<uint32_t>(count) != site->operand_count, 0)) {
        return fail(whet::base::make_error(whet::base::Code::invalid_argument,
                                           "got %d operands, expected %u", count,
                                           site->operand_count));
    }
    ThreadBlock* const block = current_block;
    if (__builtin_expect(!block || hot_settings.every_call_slow.load(std::memory_order_relaxed),
                         0)) {
        return call_slowly(site, operands, fallback, user, block);
    }
    SiteCounter& counter = block->counters[site->index];
    if (__builtin_expect(counter.countdown == 0, 0))
        return call_slowly(site, operands, fallback, user, block);
    --counter.countdown;
    counter.calls.store(counter.calls.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    const Record* const record = site->record.load(std::memory_order_acquire);
    if (record && run_record(*record, site, operands, *block)) return WHET_OK;
    run_original(site, operands, fallback, user);
    return WHET_OK;
}
