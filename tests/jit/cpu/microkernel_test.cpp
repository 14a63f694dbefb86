// SPDX-License-Identifier: Apache-2.0
// Generated tile microkernels against the interpreter, bit for bit, on operands that end at
// unmapped pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "harness.hpp"
#include "jit/portable.hpp"

namespace whet::jit::cpu {
namespace {

/// One random call (T: the spec's type): arguments, and operands exactly as long as the spec lets the microkernel reach.
template <typename T>
class Call {
public:
    Call(const MicrokernelSpec& spec, std::mt19937& random) : spec_(spec), random_(random) {
        const int64_t width = spec.vectors * spec.lanes();
        args.k = spec.taps == 2 ? 1 : pick(0, 70);
        if (spec.vector == VectorForm::transposed) args.k *= kTransposedSteps;
        args.tiles = pick(0, 3);
        args.lanes = pick(0, 1) ? width : pick(1, width);
        args.first_lane = pick(0, 1) ? 0 : pick(0, args.lanes - 1);
        args.taps = spec.taps ? pick(0, 3) : 1;
        args.start = pick(kStartZero, kStartBiasRow);
        args.finish = pick(0, 1);
        const T alphas[] = {1, 1, T(-0.5), T(0.3), 0};
        args.alpha = alphas[pick(0, 4)];
        args.beta = pick(0, 1) ? T(1) : T(-1.7);
        args.scalar_row = pick(0, 80);
        args.scalar_k =
            spec.scalar == ScalarForm::packed ? pick(spec.rows, spec.rows + 9) : pick(0, 90);
        args.scalar_tile = pick(0, 100);
        args.vector_row = pick(0, 40);
        args.vector_k = pick(0, 90);
        args.vector_tile = pick(0, 50);
        args.dst_row = pick(width, width + 20);
        args.dst_tile = spec.rows * args.dst_row + pick(0, 5);
        args.bias_tile = pick(0, 9);
        args.ahead = pick(0, 1) ? nullptr : reinterpret_cast<const T*>(pick(0, 1 << 30));
        args.ahead_stream = pick(0, 300);
        args.ahead_return = pick(-900, 300);
        args.panel_k = pick(width, 3 * width);
        for (int64_t tap = 0; tap < 2 * args.taps; ++tap) offsets_.push_back(pick(0, 60));
        args.tap_offsets = offsets_.data();
        allocate(width);
    }

    TileArgsOf<T> args = {};

    /// dst, and the panel where there is one.
    std::vector<T> result() const {
        std::vector<T> values(dst_->data(), dst_->data() + dst_->size());
        if (panel_) values.insert(values.end(), panel_->data(), panel_->data() + panel_->size());
        return values;
    }
    void set_result(const std::vector<T>& values) {
        std::copy_n(values.begin(), dst_->size(), dst_->data());
        if (panel_)
            std::copy(values.begin() + static_cast<std::ptrdiff_t>(dst_->size()), values.end(),
                      panel_->data());
    }

private:
    int64_t pick(int64_t low, int64_t high) {
        return std::uniform_int_distribution<int64_t>(low, high)(random_);
    }

    void allocate(int64_t width) {
        const int64_t r = spec_.rows - 1, t = std::max<int64_t>(args.tiles, 1) - 1,
                      i = std::max<int64_t>(args.k, 1) - 1;
        const int64_t lanes = spec_.masked_loads ? args.lanes : width;
        int64_t scalar_tap = 0, vector_tap = 0;
        for (int64_t tap = 0; spec_.taps && tap < args.taps; ++tap) {
            scalar_tap = std::max(scalar_tap, offsets_[2 * tap]);
            vector_tap = std::max(vector_tap, offsets_[2 * tap + 1]);
        }
        int64_t scalar = t * args.scalar_tile + scalar_tap + 1;
        switch (spec_.scalar) {
            case ScalarForm::rows_strided: scalar += r * args.scalar_row + i; break;
            case ScalarForm::packed: scalar += r + i * args.scalar_k; break;
            case ScalarForm::general: scalar += r * args.scalar_row + i * args.scalar_k; break;
            case ScalarForm::uniform: scalar += i * args.scalar_k; break;
        }
        int64_t vector = t * args.vector_tile + vector_tap + lanes;
        switch (spec_.vector) {
            case VectorForm::strided: vector += i * args.vector_k; break;
            case VectorForm::packed: vector += i * width; break;
            case VectorForm::row_strided: vector += r * args.vector_row + i * args.vector_k; break;
            case VectorForm::transposed: vector += (width - 1) * (args.vector_row - 1) + i; break;
        }
        int64_t bias = args.start == kStartBiasLane ? args.lanes : t * args.bias_tile + spec_.rows;
        scalar_ = fresh(scalar);
        vector_ = fresh(vector);
        bias_ = fresh(bias);
        dst_ = fresh(t * args.dst_tile + r * args.dst_row + args.lanes);
        args.scalar = scalar_->data();
        args.vector = vector_->data();
        args.bias = bias_->data();
        args.dst = dst_->data();
        if (spec_.packs) {
            panel_ = fresh(i * args.panel_k + width);
            args.panel = panel_->data();
        }
        if (args.start == kStartZero || args.start > kStartScaled) {
            std::fill_n(dst_->data(), dst_->size(), std::numeric_limits<T>::quiet_NaN());
        }
        if (pick(0, 9) == 0) vector_->data()[0] = std::numeric_limits<T>::infinity();
        if (pick(0, 9) == 0) scalar_->data()[0] = std::numeric_limits<T>::quiet_NaN();
    }

    std::unique_ptr<GuardedBuffer<T>> fresh(int64_t count) {
        auto buffer = std::make_unique<GuardedBuffer<T>>(static_cast<std::size_t>(count));
        buffer->fill_random(random_);
        return buffer;
    }

    const MicrokernelSpec& spec_;
    std::mt19937& random_;
    std::vector<int64_t> offsets_;
    std::unique_ptr<GuardedBuffer<T>> scalar_, vector_, bias_, dst_, panel_;
};

template <typename T>
void expect_equal_calls(const MicrokernelSpec& spec, const Executable& microkernel,
                        std::mt19937& random, int calls) {
    for (int n = 0; n < calls; ++n) {
        Call<T> call(spec, random);
        const std::vector<T> before = call.result();
        run_portable(spec, &call.args);
        const std::vector<T> expected = call.result();
        call.set_result(before);
        microkernel(&call.args);
        const std::vector<T> got = call.result();
        for (std::size_t i = 0; i < got.size(); ++i) {
            ASSERT_TRUE(same(got[i], expected[i]))
                << spec.print() << " element " << i << ": got " << got[i] << ", expected "
                << expected[i] << "; k " << call.args.k << " tiles " << call.args.tiles << " lanes "
                << call.args.lanes << " start " << call.args.start << " taps " << call.args.taps
                << " alpha " << call.args.alpha;
        }
    }
}

class Tiles : public testing::TestWithParam<Isa> {
protected:
    void SetUp() override {
        if (!host_runs(GetParam()))
            GTEST_SKIP() << "this processor has no " << isa_name(GetParam());
        compiler_ = test_compiler();
        ASSERT_NE(compiler_, nullptr);
        RecordProperty("seed", kSeed);
    }

    void expect_equal(const MicrokernelSpec& spec, int calls) {
        const auto blob = compiler_->compile(spec);
        ASSERT_TRUE(blob) << spec.print() << ": " << blob.error().message;
        const auto report = compiler_->check(*blob, false);
        ASSERT_TRUE(report) << report.error().message;
        ASSERT_TRUE(report->accepted) << spec.print() << ": " << report->reason;
        EXPECT_EQ(report->fma_count, spec.rows * spec.vectors * spec.unroll);
        if (spec.element == Element::f64)
            expect_equal_calls<double>(spec, Executable(*blob), random_, calls);
        else
            expect_equal_calls<float>(spec, Executable(*blob), random_, calls);
    }

    static constexpr int kSeed = 20261130;
    Compiler* compiler_ = nullptr;
    std::mt19937 random_{kSeed};
};

/// Every form, masked or not, with and without taps, on small, middling and the largest tiles.
TEST_P(Tiles, EveryFormGivesTheInterpretersBits) {
    const bool wide = GetParam() == Isa::avx512;
    const int shapes[][2] = {{1, 1},
                             {2, 3},
                             {5, 2},
                             {wide ? 14 : 8, 1},
                             {wide ? 24 : 12, 1},
                             {wide ? 6 : 2, 4},
                             {wide ? 11 : 4, 2}};
    for (const auto& shape : shapes) {
        for (int form = 0; form < 4 * 3 * 2 * 3 * 2; ++form) {
            MicrokernelSpec spec = {.isa = GetParam(),
                                    .rows = static_cast<uint8_t>(shape[0]),
                                    .vectors = static_cast<uint8_t>(shape[1])};
            spec.scalar = static_cast<ScalarForm>(form % 4);
            spec.vector = static_cast<VectorForm>(form / 4 % 3);
            spec.masked_loads = form / 12 % 2;
            spec.taps = static_cast<uint8_t>(form / 24 % 3);
            spec.element = static_cast<Element>(form / 72);
            spec.unroll = static_cast<uint8_t>(spec.taps == 2 ? 1 : 1 << form % 4);
            spec.epilogue = static_cast<Epilogue>(form % 2);
            if (!spec.check()) continue;
            expect_equal(spec, 6);
            if (HasFatalFailure()) return;
        }
    }
}

/// Every number of rows and vectors within the register budget passes the static check and gives
/// the right bits.
TEST_P(Tiles, EveryShapeOfTheBudget) {
    for (int vectors = 1; vectors <= 4; ++vectors) {
        for (int rows = 1; rows <= 28; ++rows) {
            MicrokernelSpec spec = {.isa = GetParam(),
                                    .rows = static_cast<uint8_t>(rows),
                                    .vectors = static_cast<uint8_t>(vectors),
                                    .unroll = 4};
            if (!spec.check()) continue;
            for (const Element element : {Element::f32, Element::f64}) {
                for (const ScalarForm scalar : {ScalarForm::rows_strided, ScalarForm::packed}) {
                    spec.element = element;
                    spec.scalar = scalar;
                    spec.prefetch = scalar == ScalarForm::packed ? 8 : 0;
                    expect_equal(spec, 3);
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

/// The prefetches change no bit, wherever they point.
TEST_P(Tiles, PrefetchesAheadChangeNothing) {
    const bool wide = GetParam() == Isa::avx512;
    for (const PrefetchAhead ahead : {kAheadLine, kAheadRow}) {
        for (int vectors = 1; vectors <= 4; ++vectors) {
            for (const int rows :
                 {1, 3, wide ? 24 / vectors : 12 / vectors, wide ? 28 / vectors : 2}) {
                MicrokernelSpec spec = {.isa = GetParam(),
                                        .rows = static_cast<uint8_t>(rows),
                                        .vectors = static_cast<uint8_t>(vectors),
                                        .unroll = static_cast<uint8_t>(rows == 3 ? 8 : 4),
                                        .prefetch = ahead};
                for (const ScalarForm scalar :
                     {ScalarForm::rows_strided, ScalarForm::packed, ScalarForm::general}) {
                    spec.scalar = scalar;
                    for (const Element element : {Element::f32, Element::f64}) {
                        spec.element = element;
                        if (!spec.check()) continue;
                        expect_equal(spec, 4);
                        if (HasFatalFailure()) return;
                    }
                }
            }
        }
    }
    MicrokernelSpec strided = {
        .isa = GetParam(), .vector = VectorForm::strided, .prefetch = kAheadLine};
    EXPECT_FALSE(strided.check());
    MicrokernelSpec taps = {.isa = GetParam(), .taps = 1, .prefetch = kAheadRow};
    EXPECT_FALSE(taps.check());
}

/// Every tile whose vector operand is transposed in registers, with and without prefetches: all
/// remainders of a line, reductions shorter and longer than what is prefetched.
TEST_P(Tiles, EveryTransposedTile) {
    int tiles = 0;
    for (int rows = 1; rows <= 28; ++rows) {
        for (const ScalarForm scalar :
             {ScalarForm::rows_strided, ScalarForm::packed, ScalarForm::general}) {
            MicrokernelSpec spec = {
                .isa = GetParam(),
                .rows = static_cast<uint8_t>(rows),
                .unroll = kTransposedUnroll,
                .scalar = scalar,
                .vector = VectorForm::transposed,
                .epilogue = static_cast<Epilogue>(rows % 2),
                .prefetch = static_cast<uint8_t>(rows % 3 == 0 ? 0 : kAheadLine)};
            for (spec.packs = 0; spec.packs < 2; ++spec.packs) {
                if (!spec.check()) continue;
                expect_equal(spec, 12);
                if (HasFatalFailure()) return;
                ++tiles;
            }
        }
    }
    EXPECT_GE(tiles, GetParam() == Isa::avx512 ? 24 + 15 + 15 + 24 + 10 : 5 * 8);
}

/// All that check() lets pass at one unrolling: minutes.
TEST_P(Tiles, DISABLED_EverySpecPassesTheStaticCheck) {
    for (int index = 0; index < 4 * 28 * 4 * 4 * 2 * 2 * 3 * 2; ++index) {
        MicrokernelSpec spec = {.isa = GetParam(), .unroll = 4, .epilogue = Epilogue::relu};
        int rest = index;
        auto next = [&rest](int count) {
            return static_cast<uint8_t>(std::exchange(rest, rest / count) % count);
        };
        spec.vectors = static_cast<uint8_t>(1 + next(4));
        spec.rows = static_cast<uint8_t>(1 + next(28));
        spec.scalar = static_cast<ScalarForm>(next(4));
        spec.vector = static_cast<VectorForm>(next(4));
        if (spec.vector == VectorForm::transposed) spec.unroll = kTransposedUnroll;
        spec.masked_loads = next(2);
        spec.taps = next(2);
        spec.prefetch = spec.taps ? 4 : static_cast<uint8_t>(next(3));
        spec.element = static_cast<Element>(next(2));
        if (!spec.check()) continue;
        const auto blob = compiler_->compile(spec);
        ASSERT_TRUE(blob) << blob.error().message;
        const auto report = compiler_->check(*blob, false);
        ASSERT_TRUE(report);
        EXPECT_TRUE(report->accepted) << spec.print() << ": " << report->reason;
    }
}

TEST_P(Tiles, EveryLaneCountAndStartMode) {
    for (const Element element : {Element::f32, Element::f64}) {
        MicrokernelSpec spec = {.isa = GetParam(), .rows = 3, .vectors = 2, .unroll = 2};
        spec.scalar = ScalarForm::rows_strided;
        spec.epilogue = Epilogue::relu;
        spec.element = element;
        expect_equal(spec, 400);
        spec.masked_loads = 1;
        spec.vector = VectorForm::strided;
        expect_equal(spec, 400);
    }
}

TEST_P(Tiles, CompilesToTheSameBytesTwice) {
    const MicrokernelSpec spec = {.isa = GetParam(), .rows = 4, .vectors = 2, .unroll = 4};
    const auto first = compiler_->compile(spec), second = compiler_->compile(spec);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->bytes, second->bytes);
    EXPECT_EQ(first->entry, second->entry);
}

TEST_P(Tiles, ReluKeepsNaNAndMinusZero) {
    MicrokernelSpec spec = {.isa = GetParam(), .rows = 1, .vectors = 1};
    spec.epilogue = Epilogue::relu;
    const auto blob = compiler_->compile(spec);
    ASSERT_TRUE(blob);
    float dst[16] = {std::numeric_limits<float>::quiet_NaN(), -0.0f, 0.0f, -1.0f, 2.0f,
                     -std::numeric_limits<float>::infinity()};
    TileArgs args = {.dst = dst,
                     .tiles = 1,
                     .lanes = lanes_of(GetParam()),
                     .start = kStartDst,
                     .finish = 1,
                     .alpha = -1.0f,
                     .beta = 1.0f};
    Executable{*blob}(&args);  // alpha * +0 = -0: -0 + -0 stays -0
    EXPECT_NE(dst[0], dst[0]);
    EXPECT_TRUE(same(dst[1], -0.0f));
    EXPECT_TRUE(same(dst[2], 0.0f));
    EXPECT_TRUE(same(dst[3], 0.0f));
    EXPECT_TRUE(same(dst[4], 2.0f));
    EXPECT_TRUE(same(dst[5], 0.0f));
}

INSTANTIATE_TEST_SUITE_P(Isa, Tiles, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST(Compiler, RefusesWhatItCannotBuild) {
    Compiler* compiler = test_compiler();
    ASSERT_NE(compiler, nullptr);
    const auto portable = compiler->compile({.isa = Isa::portable});
    ASSERT_FALSE(portable);
    EXPECT_EQ(portable.error().code, base::Code::unsupported);
    const auto large = compiler->compile({.isa = Isa::avx2, .rows = 9, .vectors = 2});
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().code, base::Code::unsupported);
}

TEST(Compiler, SaysWhereItLooked) {
    const auto missing = open_compiler("/nowhere");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, base::Code::io_error);
    EXPECT_NE(missing.error().message.find("/nowhere/libwhet_llvm.so"), std::string::npos);
}

}  // namespace
}  // namespace whet::jit::cpu
