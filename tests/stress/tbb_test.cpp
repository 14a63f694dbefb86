// SPDX-License-Identifier: Apache-2.0
// A plan's tasks on oneTBB's threads.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>
#include <oneapi/tbb/parallel_for.h>
#include <whet/whet.hpp>

namespace whet {
namespace {

TEST(Tbb, RunsAPlansTasks) {
    constexpr int64_t kRows = 70, kDepth = 200, kColumns = 130;
    constexpr auto kPatience = std::chrono::seconds(120);  // for a plan, on a busy machine
    std::vector<float> a(kRows * kDepth), b(kDepth * kColumns), c(kRows * kColumns),
        expected(kRows * kColumns);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
    const auto multiply = [&](std::vector<float>& out) {
        for (int64_t i = 0; i < kRows; ++i)
            for (int64_t j = 0; j < kColumns; ++j) {
                float sum = 0;  // whole numbers: every order of adding gives the same bits
                for (int64_t k = 0; k < kDepth; ++k) sum += a[i * kDepth + k] * b[k * kColumns + j];
                out[i * kColumns + j] = sum;
            }
    };
    multiply(expected);
    whet_op op;
    ASSERT_EQ(op_matmul(op, Tensor(c.data(), {kRows, kColumns}), Tensor(a.data(), {kRows, kDepth}),
                        Tensor(b.data(), {kDepth, kColumns})),
              WHET_OK);
    ASSERT_EQ(whet_op_set_threads(&op, 3), WHET_OK);
    Site site;
    ASSERT_EQ(Site::get(op, site), WHET_OK) << last_error();
    const Executor executor([](int count, auto&& body) { tbb::parallel_for(0, count, body); });
    int fallbacks = 0, calls = 0;
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (int served = 0; served < 1000 && std::chrono::steady_clock::now() < end; ++calls) {
        std::fill(c.begin(), c.end(), NAN);
        const int before = fallbacks;
        ASSERT_EQ(site.call_on(
                      executor,
                      [&] {
                          ++fallbacks;
                          multiply(c);
                      },
                      c.data(), a.data(), b.data()),
                  WHET_OK);
        ASSERT_EQ(c, expected);
        served += fallbacks == before;
    }
    EXPECT_GE(calls - fallbacks, 1000);
}

}  // namespace
}  // namespace whet
