// SPDX-License-Identifier: Apache-2.0
// Tests of the whet_op_* builders and of canonical operations.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "runtime/dispatch/operation.hpp"
#include "tests/runtime/op_helpers.hpp"

namespace whet::runtime {
namespace {

using test::tensor;

struct BadProduct {
    const char* name;
    std::vector<int64_t> c, a, b, c_strides;
    whet_status status;
    const char* message;
};

class BadProducts : public ::testing::TestWithParam<BadProduct> {};

TEST_P(BadProducts, SayWhatWasGotAndExpected) {
    const auto& p = GetParam();
    whet_op op, before;
    std::memset(&op, 0x5a, sizeof op);
    before = op;
    const auto c = tensor(nullptr, p.c.data(), static_cast<int>(p.c.size()),
                          p.c_strides.empty() ? nullptr : p.c_strides.data());
    const auto a = tensor(nullptr, p.a.data(), static_cast<int>(p.a.size()));
    const auto b = tensor(nullptr, p.b.data(), static_cast<int>(p.b.size()));
    EXPECT_EQ(whet_op_matmul(&op, &c, &a, &b, nullptr, 1, 0, WHET_EPILOGUE_NONE), p.status);
    EXPECT_NE(std::string(whet_last_error()).find(p.message), std::string::npos)
        << whet_last_error();
    EXPECT_EQ(std::memcmp(&op, &before, sizeof op), 0) << "a failed builder wrote";
}

INSTANTIATE_TEST_SUITE_P(
    Errors, BadProducts,
    ::testing::Values(
        BadProduct{"depths",
                   {2, 3},
                   {2, 4},
                   {5, 3},
                   {},
                   WHET_INVALID_ARGUMENT,
                   "got extent 5 at axis 0, expected 4"},
        BadProduct{"rows",
                   {2, 3},
                   {3, 4},
                   {4, 3},
                   {},
                   WHET_INVALID_ARGUMENT,
                   "got extent 3 at axis 0, expected 2"},
        BadProduct{
            "rank1", {3}, {3, 4}, {4, 3}, {}, WHET_UNSUPPORTED, "got rank 1, expected 2 to 3"},
        BadProduct{"rank4", {1, 1, 2, 3}, {2, 4}, {4, 3}, {}, WHET_UNSUPPORTED, "got rank 4"},
        BadProduct{"stride0", {2, 3}, {2, 4}, {4, 3}, {0, 1}, WHET_UNSUPPORTED, "overlap"},
        BadProduct{"overlap", {2, 3}, {2, 4}, {4, 3}, {2, 1}, WHET_UNSUPPORTED, "overlap"},
        BadProduct{"negative", {2, 3}, {2, 4}, {4, 3}, {-3, 1}, WHET_UNSUPPORTED, "got stride -3"},
        BadProduct{"huge",
                   {2, 3},
                   {2, 1ll << 40},
                   {1ll << 40, 3},
                   {},
                   WHET_INVALID_ARGUMENT,
                   "expected 0 to 2^31 - 1"}),
    [](const auto& info) { return info.param.name; });

TEST(Operation, StridesOfUnitAxesDoNotCount) {
    const int64_t c[] = {1, 3}, a[] = {1, 4}, b[] = {4, 3}, odd[] = {77, 1}, even[] = {3, 1};
    const auto at = tensor(nullptr, a, 2), bt = tensor(nullptr, b, 2);
    const auto c_odd = tensor(nullptr, c, 2, odd), c_even = tensor(nullptr, c, 2, even);
    whet_op first, second;
    ASSERT_EQ(whet_op_matmul(&first, &c_odd, &at, &bt, nullptr, 1, -0.0f, WHET_EPILOGUE_NONE),
              WHET_OK);
    ASSERT_EQ(whet_op_matmul(&second, &c_even, &at, &bt, nullptr, 1, 0, WHET_EPILOGUE_NONE),
              WHET_OK);
    EXPECT_EQ(std::memcmp(&first, &second, sizeof first), 0);
}

TEST(Operation, AllOperandsAreOfOneType) {
    const int64_t c[] = {2, 3}, a[] = {2, 4}, b[] = {4, 3};
    whet_tensor ct = tensor(nullptr, c, 2), at = tensor(nullptr, a, 2), bt = tensor(nullptr, b, 2);
    whet_op f32, f64;
    ASSERT_EQ(whet_op_matmul(&f32, &ct, &at, &bt, nullptr, 0.1, 0, WHET_EPILOGUE_NONE), WHET_OK);
    EXPECT_EQ(f32.alpha, static_cast<double>(0.1f));
    ct.dtype = WHET_F64;
    EXPECT_EQ(whet_op_matmul(&f64, &ct, &at, &bt, nullptr, 0.1, 0, WHET_EPILOGUE_NONE),
              WHET_UNSUPPORTED);
    EXPECT_NE(std::string(whet_last_error()).find("got dtype 1, expected f64"), std::string::npos);
    at.dtype = WHET_F64;
    bt.dtype = WHET_F64;
    ASSERT_EQ(whet_op_matmul(&f64, &ct, &at, &bt, nullptr, 0.1, 0, WHET_EPILOGUE_NONE), WHET_OK);
    EXPECT_EQ(f64.alpha, 0.1);
    EXPECT_NE(operation_id(f32), operation_id(f64));
    EXPECT_NE(family_id(f32), family_id(f64));
    EXPECT_EQ(operation_text(f64), "matmul m=2 k=4 n=3 dtype=f64 alpha=0.1");
    ASSERT_TRUE(check_operation(f64));
    f64.operands[WHET_B].dtype = WHET_F32;
    EXPECT_FALSE(check_operation(f64));
    whet_op softmax;
    const int64_t rows[] = {2, 3};
    whet_tensor wide = tensor(nullptr, rows, 2);
    wide.dtype = WHET_F64;
    EXPECT_EQ(whet_op_softmax(&softmax, &wide, &wide), WHET_UNSUPPORTED);
}

TEST(Operation, FamiliesJoinRowCountsOnly) {
    test::Product narrow(4, 8, 16), wide(9, 8, 16), deeper(4, 9, 16);
    EXPECT_EQ(family_id(narrow.op), family_id(wide.op));
    EXPECT_NE(operation_id(narrow.op), operation_id(wide.op));
    EXPECT_NE(family_id(narrow.op), family_id(deeper.op));
    EXPECT_EQ(symbolic_extent(wide.op), 9);
}

TEST(Operation, ABiasIsARowAColumnOrOneValue) {
    const int64_t c[] = {2, 3}, a[] = {2, 4}, b[] = {4, 3};
    const auto ct = tensor(nullptr, c, 2), at = tensor(nullptr, a, 2), bt = tensor(nullptr, b, 2);
    const int64_t row[] = {3}, flat[] = {1, 3}, column[] = {2, 1}, one[] = {1}, wrong[] = {4};
    whet_op op;
    for (const auto& [extents, rank, axis, stride] :
         {std::tuple{row, 1, 1u, 1}, {flat, 2, 1u, 1}, {column, 2, 0u, 1}, {one, 1, 1u, 0}}) {
        const auto bias = tensor(nullptr, extents, rank);
        ASSERT_EQ(whet_op_matmul(&op, &ct, &at, &bt, &bias, 1, 0, WHET_EPILOGUE_RELU), WHET_OK)
            << whet_last_error();
        EXPECT_EQ(op.bias_axis, axis);
        EXPECT_EQ(op.operands[WHET_BIAS].strides[0], stride);
    }
    const auto bias = tensor(nullptr, wrong, 1);
    EXPECT_EQ(whet_op_matmul(&op, &ct, &at, &bt, &bias, 1, 0, WHET_EPILOGUE_NONE),
              WHET_INVALID_ARGUMENT);
    const auto good = tensor(nullptr, row, 1);
    EXPECT_EQ(whet_op_matmul(&op, &ct, &at, &bt, &good, 1, 1, WHET_EPILOGUE_NONE),
              WHET_INVALID_ARGUMENT);
}

TEST(Operation, ConvolutionsCheckTheirOutput) {
    const int64_t dst[] = {1, 8, 5, 5}, src[] = {1, 4, 7, 7}, weights[] = {8, 4, 3, 3},
                  wrong[] = {1, 8, 6, 5};
    whet_conv_params p{{1, 1, 1}, {0, 0, 0}, {1, 1, 1}, {0, 0, 0}, 1};
    const auto d = tensor(nullptr, dst, 4), s = tensor(nullptr, src, 4),
               w = tensor(nullptr, weights, 4), bad = tensor(nullptr, wrong, 4);
    whet_op op;
    ASSERT_EQ(whet_op_conv(&op, &d, &s, &w, nullptr, &p, WHET_EPILOGUE_NONE), WHET_OK)
        << whet_last_error();
    EXPECT_EQ(operation_text(op), "conv n=1 ci=4 co=8 in=7x7 k=3x3 stride=1x1 pad=0x0");
    EXPECT_EQ(whet_op_conv(&op, &bad, &s, &w, nullptr, &p, WHET_EPILOGUE_NONE),
              WHET_INVALID_ARGUMENT);
    p.groups = 3;
    EXPECT_EQ(whet_op_conv(&op, &d, &s, &w, nullptr, &p, WHET_EPILOGUE_NONE),
              WHET_INVALID_ARGUMENT);
}

TEST(Operation, TextNamesWhatMatters) {
    test::Product product(2, 3, 4, 1, 2, 0.5f);
    EXPECT_EQ(operation_text(product.op), "matmul m=2 k=3 n=4 alpha=2 beta=0.5");
    whet_op_set_frozen(&product.op, WHET_B);
    EXPECT_EQ(operation_text(product.op), "matmul m=2 k=3 n=4 alpha=2 beta=0.5 frozen=b");
}

}  // namespace
}  // namespace whet::runtime
