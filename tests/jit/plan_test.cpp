// SPDX-License-Identifier: Apache-2.0
// Plans against the reference, bit for bit: random legal schedules of every structure, by the
// portable interpreter.
#include "jit/plan/plan.hpp"

#include <gtest/gtest.h>

#include "jit/op/computation.hpp"
#include "jit/plan/nest.hpp"
#include "jit/plan/prove.hpp"
#include "jit/plan/slice.hpp"
#include "jit/reference/reference.hpp"
#include "jit/sketch/space.hpp"
#include "tests/jit/operations.hpp"

namespace whet::jit {
namespace {

using test::Buffers;
using test::ConvCase;

struct Case {
    std::string name;
    whet_op op;
};

whet_op with(whet_op op, float alpha, float beta, int epilogue = WHET_EPILOGUE_NONE) {
    op.alpha = alpha;
    op.beta = beta;
    op.epilogue = static_cast<uint32_t>(epilogue);
    return op;
}

whet_op with_bias(whet_op op, uint32_t axis) {
    op.bias_axis = axis;
    op.operands[op.operand_count++] = axis ? test::view_of({op.operands[0].extents[1]})
                                           : test::view_of({op.operands[0].extents[0], 1});
    return op;
}

whet_op frozen(whet_op op, int operand) {
    op.frozen |= 1u << operand;
    return op;
}

whet_op bmm(int64_t batch, int64_t m, int64_t n, int64_t k, bool shared_b) {
    whet_view b = test::view_of({batch, k, n});
    if (shared_b) b.strides[0] = 0;
    return test::op_of(WHET_MATMUL,
                       {test::view_of({batch, m, n}), test::view_of({batch, m, k}), b});
}

whet_op column_major(int64_t m, int64_t n, int64_t k) {
    return test::op_of(WHET_MATMUL,
                       {test::view_of({m, n}, {1, m + 3}), test::view_of({m, k}, {1, m + 1}),
                        test::view_of({k, n}, {1, k + 2})});
}

/// A result that is contiguous along its rows: the rows of A become the lanes.
whet_op transposed_result(int64_t m, int64_t n, int64_t k) {
    return test::op_of(
        WHET_MATMUL, {test::view_of({m, n}, {1, m}), test::view_of({m, k}), test::view_of({k, n})});
}

/// [n][k] weights whose rows lie `pitch` apart.
whet_op padded_weights(int64_t m, int64_t n, int64_t k, int64_t pitch) {
    return test::op_of(WHET_MATMUL, {test::view_of({m, n}), test::view_of({m, k}),
                                     test::view_of({k, n}, {1, pitch})});
}

/// Products of rows with rows, as attention has them.
whet_op bmm_transposed(int64_t batch, int64_t m, int64_t n, int64_t k) {
    return test::op_of(WHET_MATMUL, {test::view_of({batch, m, n}), test::view_of({batch, m, k}),
                                     test::view_of({batch, k, n}, {n * k, 1, k})});
}

std::vector<Case> cases_of_f32() {
    using test::conv_op;
    using test::matmul_op;
    return {
        {"one", matmul_op(1, 1, 1)},
        {"row", matmul_op(1, 37, 19)},
        {"column", matmul_op(37, 1, 19)},
        {"primes", matmul_op(13, 29, 31)},
        {"two_segments", matmul_op(5, 17, 1100)},
        {"b_transposed", matmul_op(9, 40, 33, true)},
        {"a_transposed", matmul_op(15, 33, 20, false, true)},
        {"both_transposed", matmul_op(15, 33, 20, true, true)},
        {"no_depth", matmul_op(4, 5, 0)},
        {"beta_one", with(matmul_op(7, 21, 12), 1.0f, 1.0f)},
        {"alpha_beta", with(matmul_op(7, 21, 530), 0.5f, 2.0f)},
        {"alpha_zero", with(matmul_op(7, 21, 12), 0.0f, 2.0f)},
        {"relu", with(matmul_op(11, 18, 12), 1.0f, 0.0f, WHET_EPILOGUE_RELU)},
        {"bias", with_bias(matmul_op(6, 35, 24, true), 1)},
        {"bias_rows", with_bias(matmul_op(6, 35, 24), 0)},
        {"linear_frozen", with_bias(frozen(matmul_op(17, 70, 600, true), WHET_B), 1)},
        {"a_frozen", frozen(matmul_op(17, 70, 40), WHET_A)},
        {"column_major", column_major(14, 9, 21)},
        {"in_registers", matmul_op(9, 48, 36, true)},
        {"in_registers_row", matmul_op(1, 32, 160, true)},
        {"in_registers_edge", matmul_op(9, 57, 524, true)},
        {"in_registers_edge_beta", with(with_bias(matmul_op(7, 17, 520, true), 1), 0.5f, 0.0f)},
        {"in_registers_edge_batched", bmm_transposed(2, 5, 37, 16)},
        {"in_registers_segments", matmul_op(13, 64, 524, true)},
        {"in_registers_edge_accumulates", with(matmul_op(7, 61, 520, true), 0.5f, 2.0f)},
        {"in_registers_beta", with(matmul_op(6, 48, 520, true), 0.5f, 2.0f)},
        {"in_registers_bias",
         with(with_bias(matmul_op(21, 64, 20, true), 1), 1.0f, 0.0f, WHET_EPILOGUE_RELU)},
        {"in_registers_padded", padded_weights(11, 64, 144, 150)},
        {"in_registers_batched", bmm_transposed(3, 5, 16, 12)},
        {"in_registers_columns", transposed_result(32, 9, 20)},
        {"batched", bmm(3, 5, 18, 7, false)},
        {"batched_shared", frozen(bmm(3, 5, 18, 7, true), WHET_B)},
        {"conv1x1", conv_op({.batch = 2, .in = 20, .out = 9, .rows = 5, .columns = 7})},
        {"conv3x3",
         conv_op(
             {.batch = 2, .in = 70, .out = 9, .rows = 6, .columns = 7, .kernel = 3, .padding = 1})},
        {"conv3x3_frozen", frozen(conv_op({.in = 10,
                                           .out = 19,
                                           .rows = 6,
                                           .columns = 7,
                                           .kernel = 3,
                                           .padding = 1,
                                           .bias = true}),
                                  WHET_B)},
        {"conv_valid", conv_op({.in = 5, .out = 4, .rows = 9, .columns = 8, .kernel = 3})},
        {"conv_stride", conv_op({.batch = 2,
                                 .in = 3,
                                 .out = 5,
                                 .rows = 11,
                                 .columns = 13,
                                 .kernel = 3,
                                 .stride = 2,
                                 .padding = 1})},
        {"conv7x7", conv_op({.in = 3,
                             .out = 8,
                             .rows = 20,
                             .columns = 21,
                             .kernel = 7,
                             .stride = 2,
                             .padding = 3})},
        {"conv1x1_stride", conv_op({.in = 6, .out = 5, .rows = 9, .columns = 9, .stride = 2})},
        {"conv_dilated", conv_op({.in = 4,
                                  .out = 6,
                                  .rows = 12,
                                  .columns = 10,
                                  .kernel = 3,
                                  .padding = 2,
                                  .dilation = 2})},
        {"conv_dilated_stride", conv_op({.in = 4,
                                         .out = 6,
                                         .rows = 13,
                                         .columns = 11,
                                         .kernel = 3,
                                         .stride = 3,
                                         .padding = 2,
                                         .dilation = 2})},
        {"conv_groups", conv_op({.batch = 2,
                                 .in = 6,
                                 .out = 9,
                                 .rows = 5,
                                 .columns = 6,
                                 .kernel = 3,
                                 .padding = 1,
                                 .groups = 3,
                                 .bias = true})},
        {"depthwise", conv_op({.batch = 2,
                               .in = 5,
                               .out = 5,
                               .rows = 9,
                               .columns = 19,
                               .kernel = 3,
                               .padding = 1,
                               .groups = 5,
                               .bias = true})},
        {"depthwise_stride", conv_op({.in = 4,
                                      .out = 4,
                                      .rows = 9,
                                      .columns = 10,
                                      .kernel = 3,
                                      .stride = 2,
                                      .padding = 1,
                                      .groups = 4})},
        {"depthwise_valid",
         conv_op({.in = 4, .out = 4, .rows = 9, .columns = 10, .kernel = 3, .groups = 4})},
        {"transposed", conv_op({.batch = 2,
                                .in = 6,
                                .out = 7,
                                .rows = 3,
                                .columns = 4,
                                .kernel = 4,
                                .stride = 2,
                                .padding = 1,
                                .transposed = true})},
        {"transposed_bias", conv_op({.in = 9,
                                     .out = 4,
                                     .rows = 5,
                                     .columns = 3,
                                     .kernel = 3,
                                     .stride = 2,
                                     .padding = 1,
                                     .output_padding = 1,
                                     .transposed = true,
                                     .bias = true})},
        {"transposed_gaps", conv_op({.in = 3,
                                     .out = 4,
                                     .rows = 3,
                                     .columns = 3,
                                     .kernel = 2,
                                     .stride = 3,
                                     .transposed = true})},
        {"transposed_groups", frozen(conv_op({.in = 6,
                                              .out = 4,
                                              .rows = 3,
                                              .columns = 4,
                                              .kernel = 3,
                                              .stride = 1,
                                              .padding = 1,
                                              .dilation = 2,
                                              .groups = 2,
                                              .transposed = true}),
                                     WHET_B)},
        {"softmax", test::op_of(WHET_SOFTMAX, {test::view_of({7, 201}), test::view_of({7, 201})})},
    };
}

/// The products in both types.
std::vector<Case> cases() {
    std::vector<Case> all = cases_of_f32();
    for (const Case& one : cases_of_f32())
        if (one.op.kind == WHET_MATMUL) all.push_back({one.name + "_f64", test::in_f64(one.op)});
    return all;
}

/// Runs a plan by the interpreter on its own scratch and packed copies, poisoned with NaN before.
void run(const Plan& plan, const Buffers& buffers) {
    std::vector<float> scratch((plan.shared_bytes + plan.private_bytes) / sizeof(float) + 1, NAN);
    std::vector<std::vector<float>> packed(WHET_MAX_OPERANDS);
    Operands operands{buffers.pointers.data()};
    for (int i = 0; i < WHET_MAX_OPERANDS; ++i) {
        if (plan.frozen[i].id == 0) continue;
        packed[i].assign(plan.frozen[i].bytes / sizeof(float), NAN);
        pack_frozen(plan, i, buffers.pointers[i], packed[i].data());
        operands.packed[i] = packed[i].data();
    }
    run_plan(plan, nullptr, operands, reinterpret_cast<std::byte*>(scratch.data()));
}

base::Point random_point(const ScheduleSpace& space, int sketch, std::mt19937& random) {
    base::Point point(static_cast<size_t>(space.knob_count(sketch)));
    for (int knob = 0; knob < space.knob_count(sketch); ++knob)
        point[knob] = static_cast<int16_t>(random() %
                                           static_cast<unsigned>(space.choice_count(sketch, knob)));
    return point;
}

class PlanOf : public ::testing::TestWithParam<Case> {};

/// The levels whose copies this CPU can run; microkernels are interpreted for all of them.
std::vector<Isa> runnable_isas() {
    std::vector<Isa> isas = {Isa::portable};
    if (__builtin_cpu_supports("avx2")) isas.push_back(Isa::avx2);
    if (__builtin_cpu_supports("avx512f")) isas.push_back(Isa::avx512);
    return isas;
}

void check_random_schedules(const whet_op& op, Isa isa) {
    constexpr unsigned kSeed = 20260;
    SCOPED_TRACE(kSeed);
    SCOPED_TRACE(isa_name(isa));
    std::mt19937 random(kSeed);
    MachineModel machine;
    machine.isa = isa;
    const auto space = make_space(op, machine);
    ASSERT_GT(space->sketch_count(), 0);
    for (int sketch = 0; sketch < space->sketch_count(); ++sketch) {
        int legal = 0;
        for (int attempt = 0; attempt < 200 && legal < 24; ++attempt) {
            const base::Point point = random_point(*space, sketch, random);
            const Schedule schedule = space->schedule_at(sketch, point);
            const auto plan = lower(op, schedule, isa);
            ASSERT_EQ(plan.has_value(), space->legal(sketch, point, nullptr));
            if (!plan) continue;
            ++legal;
            SCOPED_TRACE(schedule.print());
            const auto proven = prove_addresses(*plan);
            ASSERT_TRUE(proven.has_value()) << proven.error().message;
            Buffers got(op, random, false);
            Buffers expected = got;
            for (size_t i = 0; i < expected.storage.size(); ++i)
                expected.pointers[i] = expected.storage[i].data();
            for (size_t i = 0; i < got.storage.size(); ++i) got.pointers[i] = got.storage[i].data();
            reference_consistent(op, expected.pointers.data());
            run(*plan, got);
            ASSERT_TRUE(test::same_bits(got.storage[0], expected.storage[0]));
        }
        EXPECT_GT(legal, 0) << space->sketch_name(sketch);
    }
}

TEST_P(PlanOf, HasTheBitsOfTheReferenceUnderRandomSchedules) {
    for (const Isa isa : runnable_isas()) check_random_schedules(GetParam().op, isa);
}

TEST_P(PlanOf, HasAReferenceWithinToleranceOfF64) {
    const whet_op op = GetParam().op;
    std::mt19937 random(7);
    Buffers operands(op, random, false);
    const std::vector<float> before = operands.storage[0];
    std::vector<ExactElement> exact;
    const whet_view& dst = op.operands[WHET_DST];
    std::vector<int64_t> index(static_cast<size_t>(dst.rank), 0);
    std::vector<std::pair<std::vector<int64_t>, ExactElement>> elements;
    for (bool more = true; more;) {
        elements.emplace_back(index,
                              reference_exact_element(op, operands.pointers.data(), index.data()));
        more = false;
        for (int d = dst.rank - 1; d >= 0 && !more; --d) {
            more = ++index[d] < dst.extents[d];
            if (!more) index[d] = 0;
        }
    }
    reference_consistent(op, operands.pointers.data());
    for (const auto& [at, element] : elements) {
        int64_t offset = 0;
        for (int d = 0; d < dst.rank; ++d) offset += at[d] * dst.strides[d];
        EXPECT_NEAR(test::value_at(dst, operands.storage[0], offset), element.value,
                    tolerance(op, element));
    }
}

/// What a call on a poisoned result leaves: as many values as `share` says, each the expected one.
void expect_written(const whet_op& op, const std::vector<float>& got,
                    const std::vector<float>& expected, double share) {
    const whet_view& dst = op.operands[WHET_DST];
    int64_t results = 1, written = 0;
    for (int d = 0; d < dst.rank; ++d) results *= dst.extents[d];
    for (size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(got[i])) continue;
        ++written;
        ASSERT_EQ(got[i], expected[i]) << i;
    }
    EXPECT_NEAR(static_cast<double>(written), share * static_cast<double>(results), 0.01);
}

/// Operations that do not read their result: what a part did not write stays as it was.
class PartsOf : public PlanOf {};

TEST_P(PartsOf, CountTheWorkOfTasks) {
    const whet_op op = GetParam().op;
    constexpr unsigned kSeed = 11;
    SCOPED_TRACE(kSeed);
    std::mt19937 random(kSeed);
    MachineModel machine;
    machine.isa = Isa::portable;
    const auto space = make_space(op, machine);
    for (int attempt = 0; attempt < 120; ++attempt) {
        const int sketch =
            static_cast<int>(random() % static_cast<unsigned>(space->sketch_count()));
        const Schedule schedule = space->schedule_at(sketch, random_point(*space, sketch, random));
        const auto plan = lower(op, schedule, Isa::portable);
        if (!plan || (!plan->nest->contractions.empty() && plan->nest->contractions[0].degenerate))
            continue;
        SCOPED_TRACE(schedule.print());
        Buffers operands(op, random, false);
        reference_consistent(op, operands.pointers.data());
        const std::vector<float> expected = operands.storage[0];
        std::vector<float>& dst = operands.storage[0];
        Plan slice = *plan;
        const auto tasks = static_cast<unsigned>(plan->phases.back().task_count);
        slice.phases.back().task_count = static_cast<int64_t>(random() % (tasks + 1));
        std::fill(dst.begin(), dst.end(), NAN);
        run(slice, operands);
        ASSERT_NO_FATAL_FAILURE(
            expect_written(op, dst, expected, work_before(*plan, slice.phases.back().task_count)));
        EXPECT_EQ(work_before(*plan, tasks), 1);
        for (const double position : {0.0, 0.4, 1.0}) {
            const auto part = part_of(*plan, attempt % 2 == 0 ? 0.3 : 0.01, position);
            if (!part) break;
            std::fill(dst.begin(), dst.end(), NAN);
            run(part->plan, operands);
            ASSERT_NO_FATAL_FAILURE(expect_written(op, dst, expected, part->share));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Operations, PlanOf, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

std::vector<Case> cases_that_only_write() {
    std::vector<Case> chosen = cases_of_f32();
    std::erase_if(chosen,
                  [](const Case& one) { return one.op.kind == WHET_MATMUL && one.op.beta != 0; });
    return chosen;
}
INSTANTIATE_TEST_SUITE_P(Operations, PartsOf, ::testing::ValuesIn(cases_that_only_write()),
                         [](const auto& info) { return info.param.name; });

TEST(BusiestShare, IsThatOfTheThreadWithMostTasks) {
    whet_op op = test::matmul_op(60, 40, 30);
    Schedule schedule;
    schedule.order = LoopOrder::rsl;
    schedule.rows = 4;
    schedule.row_block = 1;  // fifteen tasks of four rows
    const auto share = [&](uint32_t threads) {
        op.threads = threads;
        const auto plan = lower(op, schedule, Isa::portable);
        EXPECT_TRUE(plan) << plan.error().message;
        return busiest_share(*plan);
    };
    EXPECT_EQ(share(0), 1);
    EXPECT_EQ(share(1), 1);
    EXPECT_NEAR(share(2), 8.0 / 15, 1e-12);
    EXPECT_NEAR(share(4), 4.0 / 15, 1e-12);
    EXPECT_NEAR(share(15), 1.0 / 15, 1e-12);
    EXPECT_NEAR(share(100), 1.0 / 15, 1e-12);
    schedule.order = LoopOrder::slr;  // a single task
    EXPECT_EQ(share(2), 1);
    // Both threads pack the rows, which each of 640 lanes uses.
    op = test::matmul_op(60, 640, 30);
    schedule.order = LoopOrder::lsr;
    schedule.scalar = Source::packed;
    schedule.row_block = 0;
    schedule.lane_block = 1;
    EXPECT_NEAR(share(2), 16.0 / 640 + (1 - 16.0 / 640) / 2, 1e-12);
}

/// Arguments of the calls of one run.
std::vector<TileArgs>& noted_calls() {
    static std::vector<TileArgs> calls;
    return calls;
}

/// The calls of one run of `plan`, and where its operands lie.
struct Calls {
    std::vector<TileArgs> args;
    std::vector<const float*> operands;
};
Calls run_noting_calls(const Plan& plan) {
    std::mt19937 random(1);
    const Buffers buffers(plan.op, random, false);
    std::vector<float> packed(plan.frozen[WHET_B].bytes / sizeof(float));
    std::vector<std::byte> scratch(plan.private_bytes + 64);
    Operands given{buffers.pointers.data()};
    given.packed[WHET_B] = packed.data();
    noted_calls().clear();
    const std::vector<MicrokernelFunction> note(plan.kernels.size(), [](const void* args) {
        noted_calls().push_back(*static_cast<const TileArgs*>(args));
    });
    run_plan(plan, note.data(), given, scratch.data());
    return {noted_calls(),
            {buffers.storage[0].data(), buffers.storage[1].data(), buffers.storage[2].data()}};
}

/// Bytes that each stream of a call's prefetches moves on in its turn; as many a step over all of
/// them.
int64_t step_of(const TileArgs& call) {
    return call.ahead_return + (kAheadStreams - 1) * call.ahead_stream;
}

/// Where the last stream ends, the others having met the next one's beginning on the way.
const float* end_of_prefetches(const TileArgs& call) {
    const int64_t turns = call.tiles * (call.k / kAheadStreams);
    EXPECT_GE(turns * step_of(call), call.ahead_stream);
    return call.ahead + ((kAheadStreams - 1) * call.ahead_stream + turns * step_of(call)) / 4;
}
constexpr int64_t kLine = 64 / sizeof(float);

/// Whatever the loops, the tiles that use one panel fetch the one that is used next, all of it.
TEST(PrefetchAhead, FetchesThePanelThatComesNext) {
    struct Shape {
        const char* name;
        int64_t m, n, k;
    };
    const Shape shapes[] = {{"one tile", 3, 200, 600},
                            {"wide and narrow tiles", 50, 300, 1100},
                            {"tall", 130, 100, 512}};
    for (const Shape& shape : shapes)
        for (int order = 0; order < 6; ++order)
            for (const int row_block : {0, 1, 4})
                for (const int lane_block : {0, 1, 3}) {
                    SCOPED_TRACE(std::string(shape.name) + " order " + std::to_string(order) +
                                 " blocks " + std::to_string(row_block) + "x" +
                                 std::to_string(lane_block));
                    const whet_op op =
                        frozen(test::matmul_op(shape.m, shape.n, shape.k, true), WHET_B);
                    const Schedule schedule{.vector = Source::frozen,
                                            .order = static_cast<LoopOrder>(order),
                                            .rows = 8,
                                            .vectors = 3,
                                            .unroll = 4,
                                            .prefetch = kScheduleAhead,
                                            .row_block = static_cast<uint16_t>(row_block),
                                            .lane_block = static_cast<uint16_t>(lane_block)};
                    const auto plan = lower(op, schedule, Isa::avx512);
                    ASSERT_TRUE(plan.has_value()) << plan.error().message;
                    const std::vector<TileArgs> calls = run_noting_calls(*plan).args;
                    for (size_t i = 0; i < calls.size();) {
                        size_t end = i;
                        const float* at = calls[i].ahead;
                        int64_t most = 0;  // what the prefetches can cover: less than a panel in a
                                           // block cut short
                        for (; end < calls.size() && calls[end].vector == calls[i].vector &&
                               step_of(calls[end]) == step_of(calls[i]) &&
                               std::abs(calls[end].ahead - at) <= 1;
                             ++end) {
                            at += calls[end].tiles * calls[end].k * step_of(calls[end]) / 4;
                            EXPECT_LE(std::abs(at - end_of_prefetches(calls[end])), 3 * kLine);
                            most += calls[end].tiles * calls[end].k *
                                    plan->nest->contractions[0].most_ahead_step / 4;
                        }
                        if (end < calls.size() && step_of(calls[i]) != 0) {
                            EXPECT_EQ(calls[i].ahead, calls[end].vector);
                            EXPECT_GE(at - calls[i].ahead, std::min(most, calls[end].k * 48) - 8);
                        }
                        i = end;
                    }
                }
}

/// Rows in place are fetched line by line at a fixed distance; what a call names as next is what
/// the next one reads.
TEST(PrefetchAhead, TransposedRowsNameTheNextOnes) {
    for (const int order : {0, 1, 4})
        for (const int lane_block : {0, 1, 3}) {
            const whet_op op = test::matmul_op(20, 160, 1100, true);
            const Schedule schedule{.order = static_cast<LoopOrder>(order),
                                    .rows = 20,
                                    .unroll = 4,
                                    .prefetch = kScheduleAhead,
                                    .lane_block = static_cast<uint16_t>(lane_block)};
            SCOPED_TRACE(schedule.print());
            Schedule packed = schedule;
            packed.scalar = Source::packed;  // 20 rows have no pointers of their own
            const auto plan = lower(op, packed, Isa::avx512);
            ASSERT_TRUE(plan.has_value()) << plan.error().message;
            const std::vector<TileArgs> calls = run_noting_calls(*plan).args;
            ASSERT_EQ(calls.size(), 10u * 3);
            for (size_t i = 0; i + 1 < calls.size(); ++i)
                EXPECT_EQ(calls[i].ahead, calls[i + 1].vector);
        }
}

/// While the row tiles of a lane block read its copy, they fetch all rows of the next one's, in
/// order.
TEST(PrefetchAhead, ReadersOfAFusedOperandFetchTheNextRows) {
    for (const int64_t k : {int64_t{512}, int64_t{1100}})
        for (const int row_block : {0, 2})
            for (const int lane_block : {1, 2}) {
                const whet_op op = test::matmul_op(50, 288, k, true);
                const Schedule schedule{.vector = Source::fused,
                                        .rows = 8,
                                        .vectors = 3,
                                        .unroll = 4,
                                        .prefetch = kScheduleAhead,
                                        .row_block = static_cast<uint16_t>(row_block),
                                        .lane_block = static_cast<uint16_t>(lane_block)};
                SCOPED_TRACE(schedule.print());
                const auto plan = lower(op, schedule, Isa::avx512);
                ASSERT_TRUE(plan.has_value()) << plan.error().message;
                const Contraction& c = plan->nest->contractions[0];
                const auto [calls, operands] = run_noting_calls(*plan);
                const float* const first = operands[WHET_B];
                const int64_t block = c.lane_block * c.tile_lanes * k;
                int64_t fetched = 0, blocks = 0;
                for (const TileArgs& call : calls) {
                    if (call.panel != nullptr) {  // a first reader: its own rows, line by line
                        const int64_t at = call.vector - first;
                        if (at % block == 0 && at > 0) {
                            EXPECT_GE(fetched, at + std::min(block, 288 * k - at) - 16)
                                << "before lane block " << at / block;
                            ++blocks;
                        }
                        continue;
                    }
                    if (step_of(call) == 0) continue;
                    const int64_t begin = call.ahead - first;
                    fetched = std::max(fetched, block);
                    EXPECT_LE(begin, fetched + 16);  // without a gap
                    fetched = std::max(fetched, begin + call.tiles * call.k * step_of(call) / 4);
                    EXPECT_LE(std::abs(first + fetched - end_of_prefetches(call)), 3 * kLine);
                }
                EXPECT_EQ(blocks, 288 / 48 / lane_block - 1);
            }
}

/// What a broken lowering might give, one change each.
TEST(AddressProof, RefusesTamperedNests) {
    const whet_op product = test::matmul_op(13, 70, 600, true);
    const whet_op conv = test::conv_op(
        {.batch = 2, .in = 5, .out = 6, .rows = 9, .columns = 8, .kernel = 3, .padding = 1});
    const whet_op transposed = test::matmul_op(13, 64, 600, true);
    Schedule packed{.vector = Source::packed, .rows = 4, .vectors = 2, .lane_block = 1};
    Schedule in_registers{.rows = 5};
    Schedule fused{.vector = Source::fused, .rows = 4, .vectors = 2, .lane_block = 1};
    Schedule pixels{.structure = Structure::pixels,
                    .scalar = Source::packed,
                    .vector = Source::packed,
                    .rows = 3,
                    .vectors = 1,
                    .outer_block = 4};
    struct Change {
        const char* name;
        const whet_op* op;
        const Schedule* schedule;
        void (*change)(Plan&, Nest&);
    };
    const Change changes[] = {
        {"a lane too many", &product, &packed,
         [](Plan&, Nest& n) { n.contractions[0].lanes += 1; }},
        {"a row too few", &product, &packed,
         [](Plan&, Nest& n) { n.contractions[0].row_tiles -= 1; }},
        {"a channel too many", &product, &packed,
         [](Plan&, Nest& n) { n.contractions[0].channels += 1; }},
        {"rows that overlap", &product, &packed,
         [](Plan&, Nest& n) { n.contractions[0].dst_row -= 1; }},
        {"a shifted operand", &product, &packed,
         [](Plan&, Nest& n) { n.contractions[0].scalar.base = -1; }},
        {"short scratch", &product, &packed, [](Plan& p, Nest&) { p.private_bytes -= 64; }},
        {"a row past the operand", &transposed, &in_registers,
         [](Plan&, Nest& n) { n.contractions[0].lanes += 1; }},
        {"less than a vector of rows", &transposed, &in_registers,
         [](Plan&, Nest& n) { n.contractions[0].lanes = 7; }},
        {"rows too far apart", &transposed, &in_registers,
         [](Plan&, Nest& n) { n.contractions[0].vector.axis_stride += 1; }},
        {"a part of a group of steps", &transposed, &in_registers,
         [](Plan&, Nest& n) { n.contractions[0].channels -= 1; }},
        {"short panels", &transposed, &fused, [](Plan& p, Nest&) { p.private_bytes -= 64; }},
        {"rows past the operand", &transposed, &fused,
         [](Plan&, Nest& n) { n.contractions[0].vector.base += 1; }},
        {"a tap past the image", &conv, &pixels,
         [](Plan&, Nest& n) { n.contractions[0].vector.tap_offsets.back() += 64; }},
        {"a tap table cut short", &conv, &pixels,
         [](Plan&, Nest& n) { n.contractions[0].tap_table[0][0].pop_back(); }},
        {"a column too many", &conv, &pixels, [](Plan&, Nest& n) { n.unpack.columns += 1; }},
        {"an image too large", &conv, &pixels, [](Plan&, Nest& n) { n.image.plane_rows += 8; }},
    };
    for (const Change& change : changes) {
        SCOPED_TRACE(change.name);
        auto plan = lower(*change.op, *change.schedule, Isa::avx2);
        ASSERT_TRUE(plan.has_value()) << plan.error().message;
        ASSERT_TRUE(prove_addresses(*plan).has_value());
        auto nest = std::make_shared<Nest>(*plan->nest);
        change.change(*plan, *nest);
        plan->nest = nest;
        const auto proven = prove_addresses(*plan);
        ASSERT_FALSE(proven.has_value());
        EXPECT_EQ(proven.error().code, base::Code::verify_failed);
    }
}

TEST(ScheduleText, ComesBackFromEveryPointOfTheSpace) {
    MachineModel machine;
    machine.isa = Isa::avx512;
    const auto space = make_space(test::matmul_op(32, 384, 1536), machine);
    std::mt19937 random(3);
    for (int i = 0; i < 500; ++i) {
        const int sketch =
            static_cast<int>(random() % static_cast<unsigned>(space->sketch_count()));
        const Schedule schedule = space->schedule_at(sketch, random_point(*space, sketch, random));
        const auto parsed = Schedule::parse(schedule.print());
        ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
        EXPECT_EQ(*parsed, schedule);
        EXPECT_EQ(hash_of(*parsed), hash_of(schedule));
    }
}

TEST(ScheduleText, RefusesWhatItDoesNotKnow) {
    const std::string good = Schedule{}.print();
    ASSERT_TRUE(Schedule::parse(good).has_value());
    for (const std::string& bad :
         {std::string(), good + " more=1", std::string("matmul"), good.substr(0, good.size() - 2),
          "fish" + good.substr(6), good + "x"}) {
        const auto parsed = Schedule::parse(bad);
        ASSERT_FALSE(parsed.has_value()) << bad;
        EXPECT_EQ(parsed.error().code, base::Code::invalid_argument);
        EXPECT_FALSE(parsed.error().message.empty());
    }
}

TEST(AnalyticalDraft, RanksDistinctLegalSchedulesBestFirst) {
    MachineModel machine;
    machine.isa = Isa::avx512;
    const whet_op op = test::matmul_op(32, 1536, 384, true);
    const auto space = make_space(op, machine);
    const auto draft = analytical_draft(*space, 50, nullptr, nullptr);
    ASSERT_EQ(draft.size(), 50u);
    for (const Schedule& schedule : draft)
        EXPECT_TRUE(check_schedule(op, schedule, Isa::avx512).has_value());
}

}  // namespace
}  // namespace whet::jit
