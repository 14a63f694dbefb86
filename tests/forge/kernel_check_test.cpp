// SPDX-License-Identifier: Apache-2.0
// Checking microkernels alone: every kind of good one passes, every kind of wrong one is refused.
#include "runtime/forge/kernel_check.hpp"

#include <cmath>
#include <iostream>
#include <limits>

#include <gtest/gtest.h>

#include "base/host.hpp"
#include "jit/portable.hpp"
#include "runtime/forge/guarded_buffer.hpp"
#include "runtime/forge/kernel_source.hpp"

namespace whet::runtime::forge {
namespace {

constexpr uint64_t kSeed = 20261130;

jit::MicrokernelSpec tile(int rows, int vectors) {
    jit::MicrokernelSpec spec;
    spec.isa = jit::Isa::portable;
    spec.rows = static_cast<uint8_t>(rows);
    spec.vectors = static_cast<uint8_t>(vectors);
    spec.scalar = jit::ScalarForm::rows_strided;
    return spec;
}

/// A stand-in for code: the interpreter with what a planted defect changes.
template <typename Defect>
void with_defect(const void* raw, Defect defect) {
    jit::TileArgs args = *static_cast<const jit::TileArgs*>(raw);
    jit::run_portable(tile(4, 2), &args);
    defect(args);
}

struct WrongCode {
    const char* name;
    jit::MicrokernelFunction function;
};
const WrongCode kWrong[] = {
    {"does_nothing", [](const void*) {}},
    {"wrong_for_one_remainder_of_lanes",
     [](const void* raw) {
         with_defect(raw, [](const jit::TileArgs& args) {
             if (args.lanes % 8 != 0 && args.tiles > 0) args.dst[args.lanes - 1] += 1;
         });
     }},
    {"wrong_for_the_last_row",
     [](const void* raw) {
         with_defect(raw, [](const jit::TileArgs& args) {
             if (args.tiles > 0) args.dst[3 * args.dst_row] *= 2;
         });
     }},
    {"loses_nan",
     [](const void* raw) {
         with_defect(raw, [](const jit::TileArgs& args) {
             for (int64_t t = 0; t < args.tiles; ++t) {
                 for (int64_t r = 0; r < 4; ++r) {
                     for (int64_t l = 0; l < args.lanes; ++l) {
                         float& value = args.dst[t * args.dst_tile + r * args.dst_row + l];
                         if (std::isnan(value)) value = 0;
                     }
                 }
             }
         });
     }},
    {"skips_the_last_step",
     [](const void* raw) {
         jit::TileArgs args = *static_cast<const jit::TileArgs*>(raw);
         if (args.k > 1) --args.k;
         jit::run_portable(tile(4, 2), &args);
     }},
    {"ignores_the_start_value",
     [](const void* raw) {
         jit::TileArgs args = *static_cast<const jit::TileArgs*>(raw);
         args.start = jit::kStartZero;
         jit::run_portable(tile(4, 2), &args);
     }},
    {"writes_between_the_rows",
     [](const void* raw) {
         with_defect(raw, [](const jit::TileArgs& args) {
             if (args.tiles > 0) args.dst[args.lanes] = 0;
         });
     }},
    {"another_order",
     [](const void* raw) {
         // Two chains in place of one: right to a few ULP, but not the same bits.
         with_defect(raw, [](const jit::TileArgs& args) {
             if (args.tiles == 0 || args.lanes == 0) return;
             args.dst[0] = std::nextafter(args.dst[0], std::numeric_limits<float>::infinity());
         });
     }},
};

TEST(KernelCheck, TheInterpreterPasses) {
    std::cout << "seed " << kSeed << '\n';
    const auto checked = check_microkernel(
        tile(4, 2), [](const void* args) { jit::run_portable(tile(4, 2), args); }, true, kSeed);
    EXPECT_TRUE(checked) << checked.error().message;
}

TEST(KernelCheck, TheInterpreterPassesInF64AndF32CodeForItDoesNot) {
    static const auto f64 = [] {
        jit::MicrokernelSpec spec = tile(4, 2);
        spec.element = jit::Element::f64;
        return spec;
    };
    for (uint64_t seed = kSeed; seed < kSeed + 20; ++seed) {
        const auto checked = check_microkernel(
            f64(), [](const void* args) { jit::run_portable(f64(), args); }, true, seed);
        EXPECT_TRUE(checked) << checked.error().message;
        const auto wrong = check_microkernel(
            f64(),
            [](const void* raw) {
                const auto& args = *static_cast<const jit::TileArgsOf<double>*>(raw);
                jit::run_portable(f64(), raw);
                if (args.tiles > 0) args.dst[0] = static_cast<float>(args.dst[0]);
            },
            true, seed);
        EXPECT_FALSE(wrong) << seed;
    }
}

TEST(KernelCheck, EveryKindOfWrongCodeIsRefused) {
    for (const WrongCode& wrong : kWrong) {
        for (uint64_t seed = kSeed; seed < kSeed + 50; ++seed) {
            const auto checked = check_microkernel(tile(4, 2), wrong.function, true, seed);
            ASSERT_FALSE(checked) << wrong.name << " seed " << seed;
            EXPECT_EQ(checked.error().code, base::Code::verify_failed) << wrong.name;
        }
    }
}

TEST(KernelCheck, WhatWritesOutsideIsSeenWithoutGuardPages) {
    const auto checked = check_microkernel(
        tile(4, 2),
        [](const void* raw) {
            with_defect(raw, [](const jit::TileArgs& args) {
                if (args.tiles > 0)
                    args.dst[(args.tiles - 1) * args.dst_tile + 3 * args.dst_row + args.lanes] = 0;
            });
        },
        false, kSeed);
    ASSERT_FALSE(checked);
}

TEST(KernelCheck, ReadingOneElementPastTheEndFaults) {
    EXPECT_DEATH((void)check_microkernel(
                     tile(4, 2),
                     [](const void* raw) {
                         with_defect(raw, [](const jit::TileArgs& args) {
                             const float* const end = args.bias + 1'000'000;
                             volatile float sum = 0;
                             for (const float* p = args.bias; p < end; ++p) sum = sum + *p;
                         });
                     },
                     true, kSeed),
                 "");
}

/// All that the prebuilt microkernels cover, as the processor allows.
TEST(KernelCheck, PrebuiltMicrokernelsPass) {
    const jit::Isa isa = base::host_features().avx512 ? jit::Isa::avx512 : jit::Isa::avx2;
    KernelSource source(WHET_FORGE_DIRECTORY, false);
    CodeArena code;
    int checked = 0;
    for (int rows = 1; rows <= 28; ++rows) {
        for (int vectors = 1; vectors <= 4; ++vectors) {
            for (int unroll : {1, 2, 4, 8, jit::kTransposedUnroll}) {
                for (int form = 0; form < 64; ++form) {
                    jit::MicrokernelSpec spec = tile(rows, vectors);
                    spec.isa = isa;
                    spec.unroll = static_cast<uint8_t>(unroll);
                    spec.scalar = static_cast<jit::ScalarForm>(form % 4);
                    spec.vector = static_cast<jit::VectorForm>(form / 4 % 4);
                    spec.masked_loads = form / 16 % 2;
                    spec.element = static_cast<jit::Element>(form / 32);
                    if (spec.vector == jit::VectorForm::transposed) spec.prefetch = jit::kAheadLine;
                    if (!source.ready(spec)) continue;
                    auto kernel = source.kernel(spec, false);
                    ASSERT_TRUE(kernel);
                    auto function = code.load((*kernel)->id, (*kernel)->blob);
                    ASSERT_TRUE(function);
                    const auto result = check_microkernel(spec, *function, true, kSeed);
                    EXPECT_TRUE(result) << result.error().message;
                    code.begin_group();
                    ++checked;
                }
            }
        }
    }
    EXPECT_GT(checked, 50);
}

}  // namespace
}  // namespace whet::runtime::forge
