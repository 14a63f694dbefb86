// SPDX-License-Identifier: Apache-2.0
// The bench's own loops against values counted by hand.
#include "tools/whet/bench/reference.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tools/whet/bench/case.hpp"

namespace whet::bench {
namespace {

std::vector<float> compute(const char* text, const std::vector<float>& a,
                           const std::vector<float>& b, const float* bias = nullptr) {
    const Case one = parse_case_text(text);
    std::vector<float> dst(static_cast<size_t>(count_of(one.dst_extents())));
    compute_reference(one.shape, dst.data(), a.data(), b.data(), bias);
    return dst;
}

using Floats = std::vector<float>;

TEST(Reference, LinearTransposesItsWeights) {
    const float bias[] = {10, 20};
    EXPECT_EQ(compute("linear m=1 k=3 n=2", {1, 2, 3}, {1, 0, 0, 0, 1, 1}, bias), (Floats{11, 25}));
    EXPECT_EQ(compute("gemm m=1 k=3 n=2", {1, 2, 3}, {1, 0, 0, 0, 1, 1}), (Floats{4, 3}));
    EXPECT_EQ(compute("bmm batch=2 m=1 k=1 n=1", {2, 3}, {5, 7}), (Floats{10, 21}));
}

TEST(Reference, ConvolutionPadsStridesDilatesAndGroups) {
    const Floats row{1, 2, 3, 4};
    EXPECT_EQ(compute("conv1d batch=1 in_channels=1 out_channels=1 spatial=4 kernel=3 padding=1",
                      row, {1, 1, 1}),
              (Floats{3, 6, 9, 7}));
    EXPECT_EQ(compute("conv1d batch=1 in_channels=1 out_channels=1 spatial=4 kernel=2 stride=2",
                      row, {1, 10}),
              (Floats{21, 43}));
    EXPECT_EQ(compute("conv1d batch=1 in_channels=1 out_channels=1 spatial=4 kernel=2 dilation=3",
                      row, {1, 10}),
              (Floats{41}));
    EXPECT_EQ(compute("conv1d batch=1 in_channels=2 out_channels=2 spatial=2 kernel=1 groups=2",
                      row, {1, 10}),
              (Floats{1, 2, 30, 40}));
    EXPECT_EQ(compute("conv2d batch=1 in_channels=1 out_channels=1 spatial=2x2 kernel=2x2", row,
                      {1, 10, 100, 1000}),
              (Floats{4321}));
}

TEST(Reference, TransposedConvolutionScatters) {
    // Each source value, two apart, spreads over the kernel: [1 2 4] * 1 at 0 and * 10 at 2,
    // cropped by one on each side.
    EXPECT_EQ(compute("conv_transpose2d batch=1 in_channels=1 out_channels=1 spatial=1x2 "
                      "kernel=1x3 stride=2 padding=0",
                      {1, 10}, {1, 2, 4}),
              (Floats{1, 2, 14, 20, 40}));
}

TEST(Reference, SoftmaxAndNorm) {
    const Floats soft = compute("softmax rows=1 columns=2", {0, std::log(3.0f)}, {});
    EXPECT_NEAR(soft[0], 0.25, 1e-6);
    EXPECT_NEAR(soft[1], 0.75, 1e-6);
    EXPECT_EQ(compute("norm batch=2 m=1 n=2", {3, 4, 5, 12}, {}), (Floats{5, 13}));
}

}  // namespace
}  // namespace whet::bench
