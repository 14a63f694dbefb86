// SPDX-License-Identifier: Apache-2.0
// Tests of the site table, records, frozen operands and the call's path, without a forge
// (WHET_FORGE=off).
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <xmmintrin.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <thread>

#include <gtest/gtest.h>

#include "jit/plan/plan.hpp"
#include "jit/reference/reference.hpp"
#include "runtime/dispatch/operation.hpp"
#include "runtime/runtime.hpp"
#include "tests/runtime/op_helpers.hpp"

namespace whet::runtime {
namespace {

void store_42(const void* arguments) { *static_cast<const jit::TileArgs*>(arguments)->dst = 42; }
void store_53(const void* arguments) { *static_cast<const jit::TileArgs*>(arguments)->dst = 53; }

/// A record of a 1x1x1 product whose microkernel is `function`.
const Record* record_of(const whet_op& op, jit::MicrokernelFunction function) {
    auto plan = jit::lower(op, jit::Schedule{}, jit::Isa::avx2);
    EXPECT_TRUE(plan) << plan.error().message;
    static auto& kept = *new std::deque<Record>;  // as long as the process
    auto* const record = &kept.emplace_back();
    record->plan = std::move(*plan);
    record->functions.assign(record->plan.kernels.size(), function);
    record->scratch_bytes = record->plan.shared_bytes + record->plan.private_bytes;
    record->exact_bits = false;  // these answers are not products: no comparing
    return record;
}

struct Fallback {
    std::atomic<int> calls{0};
    static void run(void* user) { ++static_cast<Fallback*>(user)->calls; }
};

TEST(SiteTable, EightThreadsThatMeetOneOperationMakeOneSite) {
    for (int round = 0; round < 20; ++round) {
        test::Product product(3 + round, 5, 7);
        std::atomic<int> ready{0};
        whet_site* sites[8] = {};
        std::vector<std::thread> threads;
        for (auto& site : sites) {
            threads.emplace_back([&] {
                ++ready;
                while (ready < 8) std::this_thread::yield();
                EXPECT_EQ(whet_site_get(&product.op, &site), WHET_OK);
            });
        }
        for (auto& thread : threads) thread.join();
        for (auto* site : sites) EXPECT_EQ(site, sites[0]);
    }
}

TEST(SiteTable, GrowsAndFindsAgain) {
    SiteTable& table = *new SiteTable(1000);  // sites live as long as the process
    static const void* kept = &table;
    ASSERT_NE(kept, nullptr);
    std::vector<whet_site*> sites;
    for (int i = 1; i <= 2000; ++i) sites.push_back(*table.find_or_make(test::Product(i, 1, 2).op));
    for (int i = 1; i <= 2000; i += 37)
        EXPECT_EQ(*table.find_or_make(test::Product(i, 1, 2).op), sites[i - 1]);
    EXPECT_EQ(table.find_or_make(test::Product(5000, 1, 2).op).error().code,
              base::Code::out_of_budget);
}

TEST(Call, WithoutAPlanTheFallbackRuns) {
    test::Product product(2, 2, 2);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    void* operands[3];
    product.operands(operands);
    Fallback fallback;
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ(whet_site_call(site, operands, 3, Fallback::run, &fallback), WHET_OK);
    EXPECT_EQ(fallback.calls, 100);
    EXPECT_EQ(whet_site_call(site, operands, 2, Fallback::run, &fallback), WHET_INVALID_ARGUMENT);
    EXPECT_STREQ(whet_last_error(), "got 2 operands, expected 3");
    EXPECT_EQ(fallback.calls, 100);
}

TEST(Call, EmptyProductsOnlyReachTheFallback) {
    for (const auto& [m, k, n] : {std::tuple{0, 3, 4}, {3, 0, 4}, {3, 4, 0}}) {
        test::Product product(m, k, n);
        whet_site* site = nullptr;
        ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
        EXPECT_TRUE(site->degenerate);
        void* operands[3] = {};
        Fallback fallback;
        EXPECT_EQ(whet_site_call(site, operands, 3, Fallback::run, &fallback), WHET_OK);
        EXPECT_EQ(fallback.calls, 1);
    }
}

TEST(Call, ARecordServesAndDisableGoesBack) {
    test::Product product(1, 1, 1, 77);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    void* operands[3];
    product.operands(operands);
    Fallback fallback;
    site->record.store(record_of(product.op, store_42), std::memory_order_release);
    for (int i = 0; i < 20; ++i) {
        product.c[0] = 0;
        whet_site_call(site, operands, 3, Fallback::run, &fallback);
        EXPECT_EQ(product.c[0], 42);
    }
    whet_disable();
    product.c[0] = 1;
    whet_site_call(site, operands, 3, Fallback::run, &fallback);
    EXPECT_EQ(product.c[0], 1);
    EXPECT_EQ(fallback.calls, 1);
    whet_enable();
    whet_site_call(site, operands, 3, Fallback::run, &fallback);
    EXPECT_EQ(product.c[0], 42);
    site->record.store(nullptr);
}

TEST(Call, AWrongRecordIsTakenOutAndItsAnswerRepaired) {
    test::Product product(1, 1, 1, 78, 1, 1);  // beta = 1: the original needs the old value again
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    void* operands[3];
    product.operands(operands);
    auto* const record = const_cast<Record*>(record_of(product.op, store_42));
    record->exact_bits = true;
    site->record.store(record);
    const auto original = [](void* user) {
        auto* const p = static_cast<test::Product*>(user);
        p->c[0] = std::fma(p->a[0], p->b[0], p->c[0]);
    };
    whet_site_call(site, operands, 3, original, &product);
    EXPECT_FLOAT_EQ(product.c[0], product.expected[0]);
    EXPECT_EQ(site->record.load(), nullptr);
}

TEST(Call, AnF64RecordIsCheckedInF64) {
    // One unit in the last place of f64, which f32 cannot show.
    double a = 1.0 / 3, b = 3, c = 0.25, expected = std::fma(a, b, c);
    const int64_t one[] = {1, 1};
    whet_tensor tensors[3] = {test::tensor(&c, one, 2), test::tensor(&a, one, 2),
                              test::tensor(&b, one, 2)};
    for (whet_tensor& tensor : tensors) tensor.dtype = WHET_F64;
    whet_op op;
    ASSERT_EQ(whet_op_matmul(&op, &tensors[0], &tensors[1], &tensors[2], nullptr, 1, 1,
                             WHET_EPILOGUE_NONE),
              WHET_OK);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&op, &site), WHET_OK);
    const auto wrong = [](const void* raw) {
        const auto& args = *static_cast<const jit::TileArgsOf<double>*>(raw);
        args.dst[0] = std::nextafter(std::fma(*args.scalar, *args.vector, args.dst[0]), 10.0);
    };
    auto* const record = const_cast<Record*>(record_of(op, wrong));
    record->exact_bits = true;
    site->record.store(record);
    void* operands[] = {&c, &a, &b};
    struct Data {
        double *a, *b, *c;
    } data{&a, &b, &c};
    const auto original = [](void* user) {
        auto* const d = static_cast<Data*>(user);
        *d->c = std::fma(*d->a, *d->b, *d->c);
    };
    whet_site_call(site, operands, 3, original, &data);
    EXPECT_EQ(c, expected);
    EXPECT_EQ(site->record.load(), nullptr);
}

TEST(Call, HotSwapShowsNoThirdValue) {
    test::Product product(1, 1, 1, 79, 1.5f);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    const Record* const before = record_of(product.op, store_42);
    const Record* const after = record_of(product.op, store_53);
    site->record.store(before, std::memory_order_release);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0}, seen_after{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&] {
            float c = 0, a = 2, b = 3;
            void* operands[3] = {&c, &a, &b};
            bool after_seen = false;
            while (!stop) {
                for (int i = 0; i < 200; ++i) {
                    whet_site_call(
                        site, operands, 3, [](void*) {}, nullptr);
                    if (c != 42 && c != 53) ++wrong;
                    if (c == 53) after_seen = true;
                }
            }
            seen_after += after_seen;
        });
    }
    for (int swap = 0; swap < 2000; ++swap) {
        site->record.store(swap & 1 ? before : after, std::memory_order_release);
        if (swap % 64 == 0) std::this_thread::yield();
    }
    site->record.store(after, std::memory_order_release);
    float c = 0, a = 2, b = 3;
    void* operands[3] = {&c, &a, &b};
    whet_site_call(
        site, operands, 3, [](void*) {}, nullptr);
    EXPECT_EQ(c, 53);
    stop = true;
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    site->record.store(nullptr);
}

static_assert(sizeof(HotSettings) == 64 && alignof(HotSettings) == 64, "a line of its own");
static_assert(offsetof(whet_site, original) <= 64 && alignof(whet_site) == 64,
              "what a call reads of a site is one line");
static_assert(offsetof(ThreadBlock, head) % 64 == 0 && offsetof(ThreadBlock, tail) % 64 == 0,
              "the tuner's line of a block is not its thread's");

void forbid_writing(const void* object, size_t bytes) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(object) / page * page;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(object) + bytes + page - 1) / page * page;
    if (mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ) != 0) _exit(3);
}

// Callers on several cores slow each other down only through lines that they write. In a child,
// where no other thread runs, the site and the record are write-protected while hits go on.
TEST(Call, AHitWritesNothingThatCallersShare) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer's heap keeps unlike things on one page";
#endif
    test::Product product(1, 1, 1, 82, 3.5f);
    whet_site* known = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &known), WHET_OK);
    // Site and record each on pages of their own, so that nothing else is protected with them.
    struct alignas(4096) Alone {
        whet_site site;
        alignas(4096) Record record;
    };
    auto& alone = *new Alone;
    whet_site* const site = &alone.site;
    site->op = known->op;
    site->index = known->index;
    site->operand_count = known->operand_count;
    Record* const record = &alone.record;
    const Record* const made = record_of(product.op, store_42);
    record->plan = made->plan;
    record->functions = made->functions;
    record->scratch_bytes = made->scratch_bytes;
    record->exact_bits = false;
    site->record.store(record, std::memory_order_release);
    float c = 0, a = 2, b = 3;  // on the stack: no page of the heap is written by a hit
    void* operands[3] = {&c, &a, &b};
    const auto hit = [&] { return whet_site_call(site, operands, 3, nullptr, nullptr) == WHET_OK; };
    const pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5000 && hit(); ++i) {  // until a stretch of unsampled calls begins
            if (i > 100 && current_block->counters[site->index].countdown > 100) break;
        }
        const uint32_t hits = current_block->counters[site->index].countdown;
        if (hits <= 100) _exit(2);
        forbid_writing(site, sizeof *site);
        forbid_writing(record, sizeof *record);
        for (uint32_t i = 0; i < hits; ++i) {
            c = 0;
            if (!hit() || c != 42) _exit(1);
        }
        _exit(0);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "a hit wrote to shared memory: signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    site->record.store(nullptr);
}

// A server that starts a thread per request must not grow (seen: 9 KB a thread).
TEST(Call, ThreadsThatEndLeaveNothingBehind) {
    test::Product product(3, 3, 3, 83);
    const auto one_thread = [&] {
        std::thread([&] {
            whet_site* site = nullptr;
            void* operands[3];
            product.operands(operands);
            ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
            whet_site_call(
                site, operands, 3, [](void*) {}, nullptr);
        }).join();
    };
    for (int i = 0; i < 20; ++i) one_thread();
    constexpr int kThreads = 500;
    constexpr size_t kGrowth = 256 * 1024;  // bytes; the tuner's thread allocates meanwhile
    const size_t before = mallinfo2().uordblks;
    for (int i = 0; i < kThreads; ++i) one_thread();
    EXPECT_LT(mallinfo2().uordblks, before + kGrowth);
}

TEST(Frozen, PromisesAreCountedAndNested) {
    std::vector<float> weights(1000);
    EXPECT_EQ(whet_is_frozen(weights.data(), 4), 0);
    ASSERT_EQ(whet_freeze(weights.data(), 4000), WHET_OK);
    const uint64_t generation = whet_frozen_generation();
    EXPECT_GT(generation, 0u);
    EXPECT_EQ(whet_is_frozen(weights.data() + 10, 400), 1);
    EXPECT_EQ(whet_is_frozen(weights.data() + 10, 4000), 0);
    ASSERT_EQ(whet_freeze(weights.data(), 4000), WHET_OK);
    EXPECT_EQ(whet_freeze(weights.data(), 8), WHET_INVALID_ARGUMENT);
    ASSERT_EQ(whet_thaw(weights.data()), WHET_OK);
    EXPECT_EQ(whet_is_frozen(weights.data(), 4000), 1);
    ASSERT_EQ(whet_thaw(weights.data()), WHET_OK);
    EXPECT_EQ(whet_is_frozen(weights.data(), 4000), 0);
    EXPECT_EQ(whet_thaw(weights.data()), WHET_NOT_FOUND);
    EXPECT_NE(whet_frozen_generation(), generation);
    EXPECT_EQ(whet_freeze(nullptr, 8), WHET_INVALID_ARGUMENT);
    EXPECT_EQ(whet_freeze(weights.data(), 0), WHET_INVALID_ARGUMENT);
}

/// Runs the product by a portable plan with packed weights.
TEST(Frozen, APackedCopyServesUntilThaw) {
    test::Product product(5, 7, 9, 80);
    ASSERT_EQ(whet_op_set_frozen(&product.op, WHET_B), WHET_OK);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    jit::Schedule schedule;
    schedule.vector = jit::Source::frozen;
    schedule.rows = 4;
    auto plan = jit::lower(site->op, schedule, jit::Isa::portable);
    ASSERT_TRUE(plan) << plan.error().message;
    Runtime& r = runtime();
    static auto& kept = *new Record;  // as long as the process
    auto* const record = &kept;
    record->plan = std::move(*plan);
    ASSERT_NE(record->plan.frozen[WHET_B].id, 0u);
    record->packs[WHET_B] = r.frozen.set_of(record->plan.frozen[WHET_B]);
    record->pack_mask = 1u << WHET_B;
    record->scratch_bytes = record->plan.shared_bytes + record->plan.private_bytes;
    site->record.store(record, std::memory_order_release);

    void* operands[3];
    product.operands(operands);
    Fallback fallback;
    const auto call = [&] { whet_site_call(site, operands, 3, Fallback::run, &fallback); };
    call();
    EXPECT_EQ(fallback.calls, 1) << "not packed yet";
    EXPECT_EQ(r.frozen.pack(*record, WHET_B, product.b.data()).error().code, base::Code::not_found);
    ASSERT_EQ(whet_freeze(product.b.data(), product.b.size() * 4), WHET_OK);
    const auto packed = r.frozen.pack(*record, WHET_B, product.b.data());
    ASSERT_TRUE(packed) << packed.error().message;
    for (int i = 0; i < 50; ++i) call();
    EXPECT_EQ(fallback.calls, 1);
    for (size_t i = 0; i < 45; ++i) EXPECT_NEAR(product.c[i], product.expected[i], 1e-5) << i;
    ASSERT_EQ(whet_thaw(product.b.data()), WHET_OK);
    call();
    EXPECT_EQ(fallback.calls, 2) << "a thawed weight must not be served from its copy";
    r.frozen.reclaim();
    EXPECT_EQ(r.frozen.packed_bytes(), 0u);
    site->record.store(nullptr);
}

/// Threads that are started for each call, the last first.
void run_on_threads(void* most, int count, void (*task)(void* data, int index), void* data) {
    *static_cast<int*>(most) = std::max(*static_cast<int*>(most), count);
    std::vector<std::thread> threads;
    for (int i = count; i-- > 1;) {
        threads.emplace_back([=] {
            _mm_setcsr(0x1f80);  // as a team that was made before the caller changed its modes
            task(data, i);
        });
    }
    task(data, 0);
    for (auto& thread : threads) thread.join();
}

/// The product by a portable plan whose tasks `threads` threads share; its answer. Each call needs
/// an operation of its own: the tuner takes a record that vanished for one that a check took out,
/// and cleans its site.
std::vector<float> on_threads(test::Product& product, const jit::Schedule& schedule, int threads) {
    EXPECT_EQ(whet_op_set_threads(&product.op, threads), WHET_OK) << whet_last_error();
    whet_site* site = nullptr;
    EXPECT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    auto plan = jit::lower(site->op, schedule, jit::Isa::portable);
    EXPECT_TRUE(plan) << plan.error().message;
    static auto& kept = *new std::deque<Record>;  // as long as the process
    Record& record = kept.emplace_back();
    record.schedule = operation_text(site->op);
    record.plan = std::move(*plan);
    record.plan.private_bytes = (record.plan.private_bytes + 63) / 64 * 64;
    record.scratch_bytes =
        record.plan.shared_bytes + record.plan.private_bytes * static_cast<size_t>(threads);
    site->record.store(&record, std::memory_order_release);
    int most = 0;
    const whet_executor executor{run_on_threads, &most};
    Fallback fallback;
    void* operands[3];
    product.operands(operands);
    for (int i = 0; i < 12; ++i) {  // compared calls, and sampled ones
        std::fill(product.c.begin(), product.c.end(), NAN);
        EXPECT_EQ(whet_site_call_on(site, operands, 3, &executor, Fallback::run, &fallback),
                  WHET_OK);
    }
    EXPECT_EQ(fallback.calls, 0);
    const int64_t shares = std::min<int64_t>(threads, record.plan.phases[0].task_count);
    EXPECT_EQ(most, shares > 1 ? shares : 0);
    EXPECT_EQ(site->record.load(), &record) << "a check found the answer wrong";
    const std::vector<float> shared = product.c;
    // Without an executor one thread does it all.
    std::fill(product.c.begin(), product.c.end(), NAN);
    EXPECT_EQ(whet_site_call(site, operands, 3, Fallback::run, &fallback), WHET_OK);
    for (int64_t i = 0; i < product.m * product.n; ++i)
        EXPECT_EQ(std::memcmp(&shared[i], &product.c[i], sizeof(float)), 0) << i;
    site->record.store(nullptr);
    return shared;
}

TEST(Threads, ShareAPlansTasksAndChangeNoBit) {
    struct {
        const char* name;
        jit::LoopOrder order;
        jit::Source scalar, vector;
    } const kinds[] = {
        {"rows", jit::LoopOrder::rsl, jit::Source::in_place, jit::Source::in_place},
        {"packed rows", jit::LoopOrder::rsl, jit::Source::packed, jit::Source::packed},
        {"lanes", jit::LoopOrder::lsr, jit::Source::packed, jit::Source::packed},
        {"one task", jit::LoopOrder::slr, jit::Source::in_place, jit::Source::packed}};
    float alpha = 1;
    for (const auto& kind : kinds) {
        SCOPED_TRACE(kind.name);
        alpha += 1;
        jit::Schedule schedule;
        schedule.order = kind.order;
        schedule.scalar = kind.scalar;
        schedule.vector = kind.vector;
        schedule.rows = 4;
        schedule.row_block = schedule.lane_block = 1;
        test::Product alone(29, 1030, 35, 91, alpha);
        const std::vector<float> expected = on_threads(alone, schedule, 1);
        for (int64_t i = 0; i < 29 * 35; ++i)
            EXPECT_NEAR(expected[i], alone.expected[i], 1e-3) << i;
        for (const int threads : {2, 3, 8}) {
            SCOPED_TRACE(threads);
            test::Product product(29, 1030, 35, 91, alpha);
            const std::vector<float> got = on_threads(product, schedule, threads);
            EXPECT_EQ(std::memcmp(got.data(), expected.data(), 29 * 35 * sizeof(float)), 0);
        }
    }
}

TEST(Threads, ComputeInTheCallersFloatingPointModes) {
    constexpr uint32_t kDefault = 0x1f80, kFlushAndDenormalsAreZero = 0x8040;
    test::Product product(8, 3, 8, 93), again(8, 3, 8, 93, 2);
    for (test::Product* one : {&product, &again}) {
        std::fill(one->a.begin(), one->a.end(), 1e-40f);  // subnormal
        std::fill(one->b.begin(), one->b.end(), 1.0f);
    }
    jit::Schedule schedule;
    schedule.order = jit::LoopOrder::rsl;
    schedule.rows = 4;
    schedule.row_block = 1;
    _mm_setcsr(kDefault);
    const std::vector<float> kept = on_threads(product, schedule, 2);
    _mm_setcsr(kDefault | kFlushAndDenormalsAreZero);
    const std::vector<float> flushed = on_threads(again, schedule, 2);
    _mm_setcsr(kDefault);
    for (int64_t i = 0; i < 64; ++i) {
        EXPECT_GT(kept[i], 0) << i;
        EXPECT_EQ(std::bit_cast<uint32_t>(flushed[i]), 0u) << i;
    }
}

TEST(Threads, AreBounded) {
    test::Product product(3, 3, 3, 92);
    EXPECT_EQ(whet_op_set_threads(&product.op, 0), WHET_INVALID_ARGUMENT);
    EXPECT_STREQ(whet_last_error(), "got 0 threads, expected 1 to 1024");
    EXPECT_EQ(whet_op_set_threads(&product.op, WHET_MAX_THREADS + 1), WHET_INVALID_ARGUMENT);
    EXPECT_EQ(product.op.threads, 0u);
    ASSERT_EQ(whet_op_set_threads(&product.op, 5), WHET_OK);
    EXPECT_NE(operation_text(product.op).find(" threads=5"), std::string::npos);
    const uint64_t five = operation_id(canonical(product.op)),
                   family = family_id(canonical(product.op));
    ASSERT_EQ(whet_op_set_threads(&product.op, 1), WHET_OK);
    EXPECT_NE(operation_id(canonical(product.op)), five);
    EXPECT_NE(family_id(canonical(product.op)), family);
    product.op.threads = 5000;
    whet_site* site = nullptr;
    EXPECT_EQ(whet_site_get(&product.op, &site), WHET_INVALID_ARGUMENT);
}

TEST(Fork, AChildKeepsWhatWasPublished) {
    test::Product product(1, 1, 1, 81, 2.5f);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    site->record.store(record_of(product.op, store_42), std::memory_order_release);
    void* operands[3];
    product.operands(operands);
    const pid_t child = fork();
    if (child == 0) {
        whet_site_call(
            site, operands, 3, [](void*) {}, nullptr);
        _exit(product.c[0] == 42 ? 0 : 1);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    site->record.store(nullptr);
}

TEST(CodeSlab, PublishesOnceAndKeepsItsBudget) {
    CodeSlab& slab = *new CodeSlab(8192);  // published code lives as long as the process
    static const void* kept = &slab;
    ASSERT_NE(kept, nullptr);
    jit::Blob blob;
    blob.bytes = {0xc3};  // ret
    blob.text_bytes = 1;
    const auto first = slab.publish(blob);
    ASSERT_TRUE(first) << first.error().message;
    (*first)(nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(*first) % 64, 0u);
    EXPECT_EQ(*slab.publish(blob), *first);
    blob.bytes.assign(16384, 0x90);
    blob.text_bytes = 16384;
    EXPECT_EQ(slab.publish(blob).error().code, base::Code::out_of_budget);
    blob.entry = 20000;
    EXPECT_EQ(slab.publish(blob).error().code, base::Code::invalid_argument);
}

TEST(Report, NamesItsFormats) {
    std::string text;
    const auto append = [](const char* part, size_t length, void* user) {
        static_cast<std::string*>(user)->append(part, length);
    };
    for (const char* format : {"text", "json", "prometheus"})
        EXPECT_EQ(whet_report(format, append, &text), WHET_OK);
    EXPECT_NE(text.find("\"sites\""), std::string::npos);
    EXPECT_NE(text.find("whet_calls_total"), std::string::npos);
    EXPECT_EQ(whet_report("xml", append, &text), WHET_INVALID_ARGUMENT);
    EXPECT_NE(std::string(whet_last_error()).find("got report format \"xml\""), std::string::npos);
}

}  // namespace
}  // namespace whet::runtime
