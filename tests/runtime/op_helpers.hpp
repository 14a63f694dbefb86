// SPDX-License-Identifier: Apache-2.0
// Small products and their naive answers, for tests of the runtime.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <whet/whet.h>

namespace whet::test {

inline whet_tensor tensor(const void* data, const int64_t* extents, int rank,
                          const int64_t* strides = nullptr) {
    return {const_cast<void*>(data), WHET_F32, rank, extents, strides};
}

/// A compact row-major product with random operands and its answer in double precision.
struct Product {
    int64_t m, k, n;
    std::vector<float> a, b, c, expected;
    whet_op op{};

    Product(int64_t rows, int64_t depth, int64_t columns, uint32_t seed = 1, float alpha = 1,
            float beta = 0)
        : m(rows),
          k(depth),
          n(columns),
          a(m * k + 1),
          b(k * n + 1),
          c(m * n + 1),
          expected(m * n + 1) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<float> uniform(-1, 1);
        for (auto* values : {&a, &b, &c}) {
            for (auto& value : *values) value = uniform(random);
        }
        for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (int64_t p = 0; p < k; ++p)
                    sum += static_cast<double>(a[i * k + p]) * b[p * n + j];
                expected[i * n + j] = static_cast<float>(
                    alpha * sum + (beta == 0 ? 0 : beta * static_cast<double>(c[i * n + j])));
            }
        }
        const int64_t ce[] = {m, n}, ae[] = {m, k}, be[] = {k, n};
        const whet_tensor ct = tensor(c.data(), ce, 2), at = tensor(a.data(), ae, 2),
                          bt = tensor(b.data(), be, 2);
        whet_op_matmul(&op, &ct, &at, &bt, nullptr, alpha, beta, WHET_EPILOGUE_NONE);
    }
    void operands(void** out) { out[0] = c.data(), out[1] = a.data(), out[2] = b.data(); }
};

}  // namespace whet::test
