// SPDX-License-Identifier: Apache-2.0
// The path of a call: one record, one branch on a countdown; everything else is in the slow half.
#include <xmmintrin.h>

#include <algorithm>
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

/// One phase of a plan, whose tasks `shares` threads run.
struct SharedPhase {
    const Record& record;
    const jit::Operands& operands;
    std::byte* scratch;
    uint32_t mxcsr;  ///< of the caller: every thread computes in its floating-point modes
    int phase = 0;
    int64_t shares = 1;
};

constexpr uint32_t kSticky = 0x3f;  // flags of MXCSR, which are no modes

/// The tasks of thread `index`: as many as any other's, or one less.
void run_share(void* data, int index) {
    const auto& [record, operands, scratch, mxcsr, phase, shares] =
        *static_cast<const SharedPhase*>(data);
    const jit::Plan& plan = record.plan;
    const int64_t tasks = plan.phases[static_cast<size_t>(phase)].task_count;
    const int64_t first = tasks * index / shares, last = tasks * (index + 1) / shares;
    std::byte* const mine =
        scratch + plan.shared_bytes + static_cast<size_t>(index) * plan.private_bytes;
    const uint32_t own = _mm_getcsr();
    const bool differs = ((own ^ mxcsr) & ~kSticky) != 0;
    if (differs) _mm_setcsr(mxcsr);
    jit::run_phase(plan, record.functions.data(), phase, operands, scratch, mine, first, last);
    if (differs) _mm_setcsr(own);
}

void run_on_threads(const Record& record, const jit::Operands& operands, std::byte* scratch,
                    const whet_executor& executor) {
    SharedPhase shared{record, operands, scratch, _mm_getcsr()};
    for (const jit::Phase& phase : record.plan.phases) {
        shared.shares = std::min<int64_t>(record.plan.op.threads, phase.task_count);
        if (shared.shares > 1)
            executor.run(executor.self, static_cast<int>(shared.shares), run_share, &shared);
        else if (phase.task_count > 0)
            run_share(&shared, 0);
        ++shared.phase;
    }
}

void run_tasks(const Record& record, const jit::Operands& operands, std::byte* scratch,
               const whet_executor* executor) {
    if (__builtin_expect(record.plan.op.threads > 1 && executor, 0))
        return run_on_threads(record, operands, scratch, *executor);
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

/// Times a candidate beside the original, whose answer the program gets: until its family has
/// crossed, no result is Whet's. The candidate writes to memory of the thread's own.
void run_beside_original(const Record& candidate, whet_site* site, void* const* operands,
                         ThreadBlock& block, whet_fallback fallback, void* user) {
    const whet_view& dst = site->op.operands[WHET_DST];
    const size_t bytes = static_cast<size_t>(element_span(dst)) * element_bytes(dst);
    std::byte* const copy = block.save_of(bytes);
    void* own[WHET_MAX_OPERANDS];
    std::copy_n(operands, site->operand_count, own);
    own[WHET_DST] = copy;
    if (copy && site->op.beta != 0) std::memcpy(copy, operands[WHET_DST], bytes);
    const auto time = [&](const Record* record, const auto& run) {
        const uint64_t begin = base::cycles();
        if (!run()) return;
        const uint64_t ticks = base::cycles_after() - begin;
        block.push({site, record, nullptr, static_cast<float>(ticks), SampleKind::timed});
    };
    const auto run_candidate = [&] {
        time(&candidate, [&] { return copy && run_record(candidate, site, own, block); });
    };
    const bool first = block.next_random() & 1;
    if (first) run_candidate();
    time(nullptr, [&] {
        run_original(site, operands, fallback, user);
        return true;
    });
    if (!first) run_candidate();
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
        if (challenger && !record) {
            run_beside_original(*challenger, site, operands, *block, fallback, user);
            return WHET_OK;
        }
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
