// SPDX-License-Identifier: Apache-2.0
// Many threads against the whole library, its tuner and a forge in the process; meant for
// ThreadSanitizer too.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <whet/whet.h>

#include "tests/report.hpp"

namespace whet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(120);  // for a plan, on a busy machine
constexpr int kThreads = 8;
constexpr int kCallsPerRound = 50;

using test::report;

int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
    return count;
}

double number(const std::string& text, const std::string& key) {
    const size_t at = text.find("\"" + key + "\": ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + key.size() + 4);
}

/// A square product of small whole numbers: every order of adding gives the same bits.
struct Product {
    static constexpr int64_t kSize = 48;
    std::vector<float> a, b, expected;
    whet_op op{};

    Product() : a(kSize * kSize), b(kSize * kSize), expected(kSize * kSize) {
        for (int64_t i = 0; i < kSize * kSize; ++i) {
            a[i] = static_cast<float>(i % 7 - 3);
            b[i] = static_cast<float>(i % 5 - 2);
        }
        multiply(expected.data());
        const int64_t extents[] = {kSize, kSize};
        const whet_tensor tensor{nullptr, WHET_F32, 2, extents, nullptr};
        EXPECT_EQ(whet_op_matmul(&op, &tensor, &tensor, &tensor, nullptr, 1, 0, WHET_EPILOGUE_NONE),
                  WHET_OK);
    }
    void multiply(float* c) const {
        for (int64_t i = 0; i < kSize; ++i) {
            for (int64_t j = 0; j < kSize; ++j) {
                float sum = 0;
                for (int64_t k = 0; k < kSize; ++k) sum += a[i * kSize + k] * b[k * kSize + j];
                c[i * kSize + j] = sum;
            }
        }
    }
    bool holds(const std::vector<float>& c) const { return c == expected; }
};

struct Original {
    const Product* product;
    float* c;
    static void run(void* user) {
        const auto* const self = static_cast<Original*>(user);
        self->product->multiply(self->c);
    }
};

TEST(Stress, EightThreadsThatMeetOneNewSiteMakeOneSiteAndOneTuning) {
    const Product product;
    std::atomic<int> wrong{0};
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> calls{0};
    std::barrier round(kThreads + 1);  // all threads meet the new site at once, and every swap
    whet_site* sites[kThreads] = {};
    std::vector<std::thread> threads;
    for (auto& site : sites) {
        threads.emplace_back([&] {
            std::vector<float> c(product.expected.size());
            Original original{&product, c.data()};
            void* operands[] = {c.data(), const_cast<float*>(product.a.data()),
                                const_cast<float*>(product.b.data())};
            for (round.arrive_and_wait(); !stop; round.arrive_and_wait()) {
                for (int i = 0; i < kCallsPerRound; ++i, ++calls) {
                    EXPECT_EQ(whet_site_get(&product.op, &site), WHET_OK);
                    c.assign(c.size(), -1);
                    EXPECT_EQ(whet_site_call(site, operands, 3, Original::run, &original), WHET_OK);
                    wrong += !product.holds(c);
                }
                round.arrive_and_wait();
            }
        });
    }
    const auto end = Clock::now() + kPatience;
    std::string text;
    for (int rounds_served = 0; rounds_served < 3 && Clock::now() < end;) {
        round.arrive_and_wait();
        if (text.find("\"served\": \"whet\"") != std::string::npos) ++rounds_served;
        round.arrive_and_wait();
        whet_drain(0.05);  // lets the background have a core
        text = report();
    }
    stop = true;
    round.arrive_and_wait();
    for (auto& thread : threads) thread.join();
    for (const auto* site : sites) EXPECT_EQ(site, sites[0]);
    EXPECT_EQ(wrong, 0);
    text = report();
    EXPECT_EQ(count_of(text, "\"op\": "), 1) << text;
    EXPECT_EQ(count_of(text, "\"served\": \"whet\""), 1) << text;
    EXPECT_EQ(number(text, "calls"), static_cast<double>(calls)) << text;
    EXPECT_GT(number(text, "published"), 0) << text;
}

}  // namespace
}  // namespace whet
