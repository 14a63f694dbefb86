// SPDX-License-Identifier: Apache-2.0
// Tests of verification and containment: right plans pass, and every bad candidate of cases.md
// harms only its worker.
#include "runtime/forge/executor.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/host.hpp"
#include "jit/plan/plan.hpp"
#include "jit/sketch/space.hpp"
#include "runtime/forge/worker.hpp"
#include "tests/forge/ops.hpp"

namespace whet::runtime::forge {
namespace {

ExecutorSettings settings_of(jit::Isa isa) {
    ExecutorSettings settings;
    settings.isa = isa;
    settings.memory_bytes = 128u << 20;
    settings.seed = 3;
    return settings;
}

std::vector<jit::Schedule> drafts(const whet_op& op, jit::Isa isa, size_t count) {
    jit::MachineModel model;
    model.isa = isa;
    const auto space = jit::make_space(op, model);
    return space == nullptr ? std::vector<jit::Schedule>()
                            : jit::analytical_draft(*space, count, nullptr, nullptr);
}

struct OpCase {
    const char* name;
    whet_op op;
};

class PortablePlans : public testing::TestWithParam<OpCase> {};

TEST_P(PortablePlans, OfEveryDraftAreRightAndAgree) {
    const auto executor = make_local_executor(settings_of(jit::Isa::portable), true);
    int tried = 0;
    for (const jit::Schedule& schedule : drafts(GetParam().op, jit::Isa::portable, 12)) {
        TrialOptions options;
        options.measure = false;
        const TrialResult result = executor->trial(GetParam().op, {schedule, {}}, nullptr, options);
        EXPECT_EQ(result.verdict, Verdict::right) << schedule.print() << ": " << result.reason;
        EXPECT_GT(result.checked_elements, 0u);
        ++tried;
    }
    EXPECT_GT(tried, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Ops, PortablePlans,
    testing::Values(OpCase{"one", matmul_op(1, 1, 1)}, OpCase{"prime", matmul_op(13, 37, 29)},
                    OpCase{"frozen_transposed", matmul_op(9, 33, 40, true, true)},
                    OpCase{"two_segments", matmul_op(5, 700, 17)},
                    OpCase{"beta", matmul_op(7, 20, 19, false, false, 2)},
                    OpCase{"gaps", matmul_op(7, 20, 19, false, false, 0, 32)},
                    OpCase{"f64", in_f64(matmul_op(13, 37, 29))},
                    OpCase{"f64_frozen", in_f64(matmul_op(9, 533, 40, true, true))},
                    OpCase{"f64_beta_gaps", in_f64(matmul_op(7, 20, 19, true, false, 2, 32))},
                    OpCase{"conv", conv_op(8, 6, 9, 3, 1, 1)},
                    OpCase{"conv_strided", conv_op(5, 7, 11, 3, 2, 1)},
                    OpCase{"depthwise", conv_op(6, 6, 10, 3, 1, 1, 6)},
                    OpCase{"softmax", softmax_op(7, 33)}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(LocalExecutor, MeasuresAgainstAnIncumbentAndSaysHowSure) {
    const whet_op op = matmul_op(16, 32, 32);
    const auto schedules = drafts(op, jit::Isa::portable, 2);
    ASSERT_GE(schedules.size(), 2u);
    const auto executor = make_local_executor(settings_of(jit::Isa::portable), true);
    const Candidate first{schedules[0], {}}, second{schedules[1], {}};
    TrialOptions options;
    options.max_quads = 4;
    TrialResult result = executor->trial(op, first, nullptr, options);
    ASSERT_EQ(result.verdict, Verdict::right);
    EXPECT_GT(result.candidate_ns, 0);
    result = executor->trial(op, second, &first, options);
    ASSERT_EQ(result.verdict, Verdict::right);
    EXPECT_EQ(result.measured, result.incumbent_ns > 0);
}

TEST(LocalExecutor, RefusesNegativeStridesEmptyResultsAndTooMuchMemory) {
    whet_op negative = matmul_op(4, 4, 4);
    negative.operands[WHET_A].strides[0] = -4;
    EXPECT_FALSE(check_operands(negative, 1 << 20));
    EXPECT_FALSE(check_operands(matmul_op(0, 4, 4), 1 << 20));
    EXPECT_FALSE(check_operands(matmul_op(4096, 4096, 4096), 1 << 20));
    EXPECT_TRUE(check_operands(matmul_op(64, 64, 64), 1 << 20));
}

/// Raw code that stands for a microkernel.
struct BadCase {
    const char* name;
    std::vector<uint8_t> code;
    Verdict verdict;
};

// mov rax, [rdi + 16] (dst); mov dword [rax + 4 * 8 * 16], 1.0f; ret: one element past an 8 x 16
// result
const std::vector<uint8_t> kPastEnd = {0x48, 0x8b, 0x47, 0x10, 0xc7, 0x80, 0x00, 0x02,
                                       0,    0,    0,    0,    0x80, 0x3f, 0xc3};
// mov rax, [rdi + 16]; mov dword [rax], 1.0f; ret: one right-looking element, the rest left alone
const std::vector<uint8_t> kWritesOne = {0x48, 0x8b, 0x47, 0x10, 0xc7, 0x00,
                                         0,    0,    0x80, 0x3f, 0xc3};
// mov rax, [rdi]; mov dword [rax], 0; ret: writes to a source
const std::vector<uint8_t> kWritesSource = {0x48, 0x8b, 0x07, 0xc7, 0x00, 0, 0, 0, 0, 0xc3};
// mmap(0, 100 GB, RW, PRIVATE | ANONYMOUS, -1, 0), then a write to what it gave
const std::vector<uint8_t> kBomb = {
    0xb8, 9,    0,    0,    0,    0x31, 0xff, 0x48, 0xbe, 0,    0,    0,    0, 0x19, 0,
    0,    0,    0xba, 3,    0,    0,    0,    0x41, 0xba, 0x22, 0,    0,    0, 0x49, 0xc7,
    0xc0, 0xff, 0xff, 0xff, 0xff, 0x45, 0x31, 0xc9, 0x0f, 0x05, 0xc6, 0x00, 1, 0xc3};

class BadCandidates : public testing::TestWithParam<BadCase> {};

TEST_P(BadCandidates, HarmOnlyTheirWorker) {
#ifdef __SANITIZE_ADDRESS__
    if (GetParam().code == kBomb) GTEST_SKIP() << "no address space limit under the sanitizer";
#endif
    if (!base::host_features().avx2_fma) GTEST_SKIP() << "no AVX2";
    const whet_op op = matmul_op(8, 12, 16);
    auto zygote = Zygote::start(false);
    ASSERT_TRUE(zygote) << zygote.error().message;
    const auto executor = make_worker_executor(std::move(*zygote), settings_of(jit::Isa::avx2));
    EXPECT_TRUE(executor->contained());
    const auto schedules = drafts(op, jit::Isa::avx2, 1);
    ASSERT_FALSE(schedules.empty());
    const auto plan = jit::lower(op, schedules[0], jit::Isa::avx2);
    ASSERT_TRUE(plan);

    auto bad = std::make_shared<BuiltKernel>();
    bad->blob.bytes = GetParam().code;
    bad->blob.text_bytes = static_cast<uint32_t>(bad->blob.bytes.size());
    bad->id = 99;
    Candidate candidate{schedules[0], {}};
    for (const jit::MicrokernelSpec& spec : plan->kernels) {
        bad->blob.spec = spec;
        candidate.kernels.push_back(bad);
    }
    TrialOptions options;
    options.reference_budget_ns = 1'000'000;
    for (int round = 0; round < 2; ++round) {  // the next worker meets the same end
        const TrialResult result = executor->trial(op, candidate, nullptr, options);
        EXPECT_EQ(result.verdict, GetParam().verdict) << result.reason;
        EXPECT_FALSE(result.reason.empty());
    }
    EXPECT_GT(executor->outside_cpu_seconds(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadCandidates,
    testing::Values(BadCase{"null_dereference", {0x31, 0xc0, 0x8b, 0x00, 0xc3}, Verdict::crashed},
                    BadCase{"ud2", {0x0f, 0x0b}, Verdict::crashed},
                    BadCase{"divide_by_zero", {0x31, 0xc9, 0xf7, 0xf1, 0xc3}, Verdict::crashed},
                    BadCase{"endless_loop", {0xeb, 0xfe}, Verdict::timed_out},
                    BadCase{"one_element_past_the_result", kPastEnd, Verdict::crashed},
                    BadCase{"writes_a_source", kWritesSource, Verdict::crashed},
                    BadCase{"allocation_bomb", kBomb, Verdict::crashed},
                    BadCase{"writes_nothing", {0xc3}, Verdict::wrong},
                    BadCase{"writes_one_element", kWritesOne, Verdict::wrong}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(LocalExecutor, RefusesUnprovenCodeWhereItCannotBeContained) {
    const whet_op op = matmul_op(8, 12, 16);
    const auto schedules = drafts(op, jit::Isa::avx2, 1);
    const auto plan = jit::lower(op, schedules[0], jit::Isa::avx2);
    auto trap = std::make_shared<BuiltKernel>();
    trap->blob.bytes = {0x0f, 0x0b};
    trap->id = 5;
    Candidate candidate{schedules[0], std::vector<KernelRef>(plan->kernels.size(), trap)};
    const auto executor = make_local_executor(settings_of(jit::Isa::avx2), false);
    EXPECT_FALSE(executor->contained());
    const TrialResult result = executor->trial(op, candidate, nullptr, {});
    EXPECT_EQ(result.verdict, Verdict::wrong);
    EXPECT_NE(result.reason.find("not proven"), std::string::npos) << result.reason;
}

}  // namespace
}  // namespace whet::runtime::forge
