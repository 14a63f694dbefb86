// SPDX-License-Identifier: Apache-2.0
// Tests of operations as text.
#include "runtime/forge/op_row.hpp"

#include <string>

#include <gtest/gtest.h>

namespace whet::runtime::forge {
namespace {

TEST(ParseOpRow, ReadsEveryOperatorOfTheSuites) {
    const auto linear = parse_op_row("linear m=32 k=384 n=1536 frozen=1");
    ASSERT_TRUE(linear) << linear.error().message;
    EXPECT_EQ(linear->kind, static_cast<uint32_t>(WHET_MATMUL));
    EXPECT_EQ(linear->operand_count, 4u);
    EXPECT_EQ(linear->frozen, 1u << WHET_B | 1u << WHET_BIAS);
    EXPECT_EQ(linear->operands[WHET_B].strides[0], 1);
    EXPECT_EQ(linear->operands[WHET_B].strides[1], 384);
    const auto f64 = parse_op_row("gemm m=3 k=4 n=5 dtype=f64");
    ASSERT_TRUE(f64) << f64.error().message;
    EXPECT_EQ(f64->operands[WHET_A].dtype, WHET_F64);
    const auto f32 = parse_op_row("linear m=3 k=4 n=5 dtype=f32");
    ASSERT_TRUE(f32);
    EXPECT_EQ(f32->operands[WHET_BIAS].dtype, WHET_F32);
    const auto bmm = parse_op_row("bmm batch=3 m=4 k=5 n=6");
    ASSERT_TRUE(bmm);
    EXPECT_EQ(bmm->operands[WHET_A].rank, 3);
    const auto threads = parse_op_row("gemm m=4 k=5 n=6 threads=3");
    ASSERT_TRUE(threads) << threads.error().message;
    EXPECT_EQ(threads->threads, 3u);
    EXPECT_EQ(bmm->threads, 0u);
    const auto conv = parse_op_row(
        "conv2d batch=2 in_channels=3 out_channels=64 spatial=224x220 kernel=7 stride=2 padding=3");
    ASSERT_TRUE(conv) << conv.error().message;
    EXPECT_EQ(conv->operands[WHET_DST].extents[2], 112);
    EXPECT_EQ(conv->operands[WHET_DST].extents[3], 110);
    ASSERT_TRUE(parse_op_row("conv1d in_channels=4 out_channels=4 spatial=9 kernel=3 groups=4"));
    ASSERT_TRUE(parse_op_row("conv3d in_channels=4 out_channels=4 spatial=9 kernel=3"));
    const auto transposed = parse_op_row(
        "conv_transpose2d batch=1 in_channels=8 out_channels=6 spatial=4x4 kernel=4x4 stride=2 "
        "padding=1");
    ASSERT_TRUE(transposed);
    EXPECT_EQ(transposed->operands[WHET_DST].extents[2], 8);
    ASSERT_TRUE(parse_op_row("softmax rows=3 columns=5"));
}

TEST(ParseOpRow, RefusesNonsenseWithAReason) {
    for (const char* row :
         {"", " ", "linear", "linear m=1 k=2", "linear m=1 k=2 n=3 q=4", "linear m=-1 k=2 n=3",
          "linear m=a k=2 n=3", "linear m= k=2 n=3", "norm m=1 n=2",
          "gemm m=1 k=2 n=3 dtype=f16", "gemm m=1 k=2 n=3 dtype=16", "softmax rows=1 columns=2 dtype=f64", "conv2d in_channels=4",
          "conv2d in_channels=4 out_channels=4 spatial=3 kernel=9", "gemm m=1x k=1 n=1",
          "gemm m=1 k=1 n=1 threads=0", "gemm m=1 k=1 n=1 threads=5000000000",
          "conv2d in_channels=4 out_channels=4 spatial=3 kernel=1 groups=0",
          "linear m=99999999999999999999 k=1 n=1"}) {
        const auto op = parse_op_row(row);
        ASSERT_FALSE(op) << row;
        EXPECT_FALSE(op.error().message.empty());
    }
}

}  // namespace
}  // namespace whet::runtime::forge
