// SPDX-License-Identifier: Apache-2.0
// Lesson 1: a product on plain pointers. The program keeps its own loop as the fall-back and calls
// the site; Whet tunes it meanwhile.  usage: product [SECONDS]
#include <whet/whet.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kRows = 64, kDepth = 384, kColumns = 256;

void multiply(float* c, const float* a, const float* b) {
    for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) c[i * kColumns + j] = 0;
        for (int k = 0; k < kDepth; ++k) {
            for (int j = 0; j < kColumns; ++j)
                c[i * kColumns + j] += a[i * kDepth + k] * b[k * kColumns + j];
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
    std::vector<float> a(kRows * kDepth), b(kDepth * kColumns), c(kRows * kColumns),
        expected(c.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 13) - 6;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 11) - 5;
    multiply(expected.data(), a.data(), b.data());

    // Describe the operation once, get its site once.
    whet_op op;
    whet::Site site;
    const whet_status status = whet::op_matmul(op, whet::Tensor(c.data(), {kRows, kColumns}),
                                               whet::Tensor(a.data(), {kRows, kDepth}),
                                               whet::Tensor(b.data(), {kDepth, kColumns}));
    if (status != WHET_OK || whet::Site::get(op, site) != WHET_OK) {
        std::fprintf(stderr, "whet: %s\n", whet::last_error().c_str());
        return 1;
    }

    // Then call it as often as there is work.
    const whet::Frozen weights(b.data(), b.size() * sizeof(float));
    const auto fallback = [&] { multiply(c.data(), a.data(), b.data()); };
    const auto start = std::chrono::steady_clock::now();
    long calls = 0;
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
           seconds) {
        if (site.call(fallback, c.data(), a.data(), b.data()) != WHET_OK) return 1;
        ++calls;
    }
    for (size_t i = 0; i < c.size(); ++i) {
        if (std::fabs(c[i] - expected[i]) > 1e-3f) return 1;  // exact here: small integers
    }
    std::printf("%ld calls\n%s", calls, whet::report("text").c_str());
    return 0;
}
