// SPDX-License-Identifier: Apache-2.0
// Text form, limits and hash of microkernel specs.
#include <gtest/gtest.h>

#include <set>

#include "jit/microkernel.hpp"

namespace whet::jit {
namespace {

TEST(MicrokernelSpec, PrintsAndParsesBack) {
    const char* texts[] = {
        "tile.avx512.r14.v2.u4.packed.strided.none",
        "tile.avx2.r6.v2.u1.rows_strided.packed.relu.masked.taps.p8",
        "tile.portable.r1.v4.u8.general.row_strided.none.taps",
        "tile.avx2.r4.v1.u1.uniform.row_strided.none.steps",
        "tile.avx2.r4.v1.u2.uniform.strided.relu.p255",
        "tile.avx512.r14.v2.u4.packed.strided.none.f64",
        "tile.avx2.r6.v2.u1.rows_strided.strided.relu.f64.masked.p8",
        "softmax.avx512.r1",
    };
    for (const char* text : texts) {
        const auto spec = MicrokernelSpec::parse(text);
        ASSERT_TRUE(spec) << text;
        EXPECT_EQ(spec->print(), text);
        EXPECT_EQ(*MicrokernelSpec::parse(spec->print()), *spec);
    }
}

TEST(MicrokernelSpec, RefusesOtherTexts) {
    const char* texts[] = {
        "",
        "tile",
        "tile.avx2",
        "tile.avx2.r0.v1.u1.packed.packed.none",
        "tile.avx2.r06.v2.u1.packed.packed.none",
        "tile.avx2.r300.v1.u1.packed.packed.none",
        "tile.avx3.r6.v2.u1.packed.packed.none",
        "tile.avx2.r6.v2.u1.packed.none",
        "tile.avx2.r6.v2.u1.packed.packed.none.",
        "tile.avx2.r6.v2.u1.packed.packed.none.taps.masked",
        "tile.avx2.r6.v2.u1.packed.packed.none.taps.taps",
        "tile.avx2.r6.v2.u1.packed.packed.none.p0",
        "tile.avx2.r6.v2.u1.packed.packed.none.f32",
        "tile.avx2.r6.v2.u1.packed.packed.none.f64.f64",
        "tile.avx2.r6.v2.u1.packed.strided.none.masked.f64",
        "softmax.avx2.r1.f64",
        "softmax.avx2",
        "softmax.avx2.r1.v1",
        "tile.avx2.r6 .v2.u1",
    };
    for (const char* text : texts) {
        const auto spec = MicrokernelSpec::parse(text);
        ASSERT_FALSE(spec) << text;
        EXPECT_EQ(spec.error().code, base::Code::invalid_argument);
    }
}

TEST(MicrokernelSpec, ChecksTheRegisterBudget) {
    const struct {
        const char* text;
        bool good;
    } cases[] = {
        {"tile.avx2.r6.v2.u4.packed.packed.none", true},
        {"tile.avx2.r7.v2.u4.packed.packed.none", false},
        {"tile.avx2.r3.v4.u4.packed.packed.none", true},
        {"tile.avx2.r4.v4.u4.packed.packed.none", false},
        {"tile.avx512.r14.v2.u4.packed.packed.none", true},
        {"tile.avx512.r15.v2.u4.packed.packed.none", false},
        {"tile.avx512.r28.v1.u4.packed.packed.none", true},
        {"tile.avx512.r29.v1.u4.packed.packed.none", false},
        {"tile.avx512.r1.v5.u4.packed.packed.none", false},
        {"tile.avx512.r1.v1.u3.packed.packed.none", false},
        {"tile.avx512.r24.v1.u16.packed.transposed.none.p1", true},
        {"tile.avx512.r25.v1.u16.packed.transposed.none.p1", false},
        {"tile.avx512.r15.v1.u16.rows_strided.transposed.none", true},
        {"tile.avx512.r16.v1.u16.rows_strided.transposed.none", false},
        {"tile.avx2.r8.v1.u16.rows_strided.transposed.none", true},
        {"tile.avx2.r9.v1.u16.rows_strided.transposed.none", false},
        {"tile.avx512.r4.v2.u16.packed.transposed.none", false},
        {"tile.avx512.r4.v1.u4.packed.transposed.none", false},
        {"tile.avx512.r4.v1.u16.packed.packed.none", false},
        {"tile.avx512.r4.v1.u16.uniform.transposed.none", false},
        {"tile.avx512.r4.v1.u16.packed.transposed.none.masked", false},
        {"tile.avx512.r4.v1.u16.packed.transposed.none.taps", false},
        {"tile.avx512.r4.v1.u16.packed.transposed.none.p2", false},
        {"tile.avx512.r4.v1.u16.packed.transposed.none.p8", false},
        {"tile.avx512.r14.v2.u4.packed.packed.none.f64", true},
        {"tile.avx512.r15.v2.u4.packed.packed.none.f64", false},
        {"tile.avx2.r6.v2.u4.general.strided.relu.f64.masked", true},
        {"tile.avx512.r4.v1.u16.packed.transposed.none.f64", false},
        {"tile.avx512.r4.v1.u4.uniform.packed.none.f64", false},
        {"tile.avx512.r4.v1.u4.packed.row_strided.none.f64", false},
        {"tile.avx512.r4.v1.u4.packed.packed.none.f64.taps", false},
        {"softmax.avx2.r1", true},
        {"softmax.avx2.r2", false},
    };
    for (const auto& item : cases) {
        const auto spec = MicrokernelSpec::parse(item.text);
        ASSERT_TRUE(spec) << item.text;
        EXPECT_EQ(spec->check().has_value(), item.good) << item.text;
    }
}

TEST(MicrokernelSpec, HashesDifferentSpecsDifferently) {
    std::set<uint64_t> hashes;
    int count = 0;
    for (int rows = 1; rows <= 28; ++rows) {
        for (int vectors = 1; vectors <= 4; ++vectors) {
            for (int form = 0; form < 32; ++form) {
                MicrokernelSpec spec;
                spec.rows = static_cast<uint8_t>(rows);
                spec.vectors = static_cast<uint8_t>(vectors);
                spec.element = static_cast<Element>(form / 16);
                spec.scalar = static_cast<ScalarForm>(form / 4 % 4);
                spec.vector = static_cast<VectorForm>(form % 4);
                hashes.insert(hash_of(spec));
                ++count;
            }
        }
    }
    EXPECT_EQ(hashes.size(), static_cast<std::size_t>(count));
}

TEST(Isa, NamesParseBack) {
    for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
        EXPECT_EQ(*parse_isa(isa_name(isa)), isa);
    EXPECT_FALSE(parse_isa("sse"));
}

}  // namespace
}  // namespace whet::jit
