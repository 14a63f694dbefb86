// SPDX-License-Identifier: Apache-2.0
// Generated softmax microkernels against the interpreter, and the error of its exponential.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "harness.hpp"
#include "jit/portable.hpp"

namespace whet::jit::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

MicrokernelSpec softmax_spec(Isa isa) {
    return {.kind = MicrokernelKind::softmax, .isa = isa, .vectors = 0, .scalar = {}, .vector = {}};
}

class Softmax : public testing::TestWithParam<Isa> {
protected:
    void SetUp() override {
        if (!host_runs(GetParam()))
            GTEST_SKIP() << "this processor has no " << isa_name(GetParam());
        Compiler* compiler = test_compiler();
        ASSERT_NE(compiler, nullptr);
        const auto blob = compiler->compile(softmax_spec(GetParam()));
        ASSERT_TRUE(blob) << blob.error().message;
        const auto report = compiler->check(*blob, false);
        ASSERT_TRUE(report);
        ASSERT_TRUE(report->accepted) << report->reason;
        microkernel_ = std::make_unique<Executable>(*blob);
    }

    /// Runs both on copies of `src` (rows of `columns`, `stride` apart) and compares all of dst.
    void expect_equal(GuardedBuffer<>& src, int64_t rows, int64_t columns, int64_t stride,
                      bool in_place) {
        GuardedBuffer<> expected(src.size()), got(src.size());
        for (std::size_t i = 0; i < src.size(); ++i)
            expected.data()[i] = got.data()[i] = in_place ? src.data()[i] : kNaN;
        SoftmaxArgs args = {src.data(), expected.data(), rows, columns, stride, stride};
        run_portable(softmax_spec(Isa::portable), &args);
        args.dst = got.data();
        if (in_place) args.src = got.data();
        (*microkernel_)(&args);
        for (std::size_t i = 0; i < src.size(); ++i) {
            ASSERT_TRUE(same(got.data()[i], expected.data()[i]))
                << columns << " columns, element " << i << ": got " << got.data()[i]
                << ", expected " << expected.data()[i];
        }
    }

    std::mt19937 random_{20261130};
    std::unique_ptr<Executable> microkernel_;
};

TEST_P(Softmax, EveryLengthGivesTheInterpretersBits) {
    std::vector<int64_t> lengths;
    for (int64_t columns = 1; columns <= 200; ++columns) lengths.push_back(columns);
    for (const int64_t columns : {1000, 8191, 8192, 8193, 8255, 8256, 16384, 20011})
        lengths.push_back(columns);
    for (const int64_t columns : lengths) {
        const int64_t rows = columns < 300 ? 3 : 2, stride = columns + 5;
        GuardedBuffer<> src(static_cast<std::size_t>((rows - 1) * stride + columns));
        src.fill_random(random_);
        for (std::size_t i = 0; i < src.size(); ++i) src.data()[i] *= 40.0f;
        expect_equal(src, rows, columns, stride, columns % 2 == 0);
        if (HasFatalFailure()) return;
    }
}

TEST_P(Softmax, SpecialValues) {
    const float table[][4] = {
        {0.0f, -0.0f, 1.0f, -1.0f},
        {kNaN, 1.0f, 2.0f, 3.0f},
        {kInfinity, 1.0f, 2.0f, 3.0f},
        {-kInfinity, 1.0f, 2.0f, 3.0f},
        {3e38f, -3e38f, 0.0f, 1.0f},
        {0.0f, -87.5f, -100.0f, -103.9f},
        {-kInfinity, -kInfinity, -kInfinity, -kInfinity},
        {1e-40f, -1e-40f, 0.0f, 0.0f},
    };
    for (const auto& values : table) {
        for (const int64_t columns : {4, 70, 130}) {
            GuardedBuffer<> src(static_cast<std::size_t>(columns));
            for (int64_t i = 0; i < columns; ++i) src.data()[i] = values[i % 4];
            expect_equal(src, 1, columns, columns, false);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Isa, Softmax, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST(SoftmaxExp, EdgesAreExact) {
    EXPECT_EQ(softmax_exp(0.0f), 1.0f);
    EXPECT_EQ(softmax_exp(-0.0f), 1.0f);
    EXPECT_TRUE(same(softmax_exp(-kInfinity), 0.0f));
    EXPECT_NE(softmax_exp(kNaN), softmax_exp(kNaN));
    EXPECT_NE(softmax_exp(std::bit_cast<float>(0x7fc00001u)), 0.0f);
    EXPECT_EQ(softmax_exp(-103.0f), 0x1p-149f);  // subnormal
    EXPECT_EQ(softmax_exp(-104.0f), 0.0f);
}

/// Largest error in units in the last place of the rounded result (2^-149 below the normal range),
/// over every `step`-th of the 2^31 floats from -0 down to -inf.
double worst_error(uint64_t step) {
    double worst = 0.0;
    for (uint64_t bits = 0x80000000u; bits <= 0xff800000u; bits += step) {
        const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
        const double exact = std::exp(static_cast<double>(x));
        const double unit = exact < 0x1p-126 ? 0x1p-149 : std::ldexp(1.0, std::ilogb(exact) - 23);
        worst = std::max(worst, std::abs(softmax_exp(x) - exact) / unit);
    }
    return worst;
}

constexpr double kWorstError = 0.892;  // measured over all floats: 0.8914

TEST(SoftmaxExp, ErrorBelowOneUnit) { EXPECT_LE(worst_error(10007), kWorstError); }

/// All of them: minutes.
TEST(SoftmaxExp, DISABLED_ErrorBelowOneUnitOnEveryFloat) { EXPECT_LE(worst_error(1), kWorstError); }

}  // namespace
}  // namespace whet::jit::cpu
