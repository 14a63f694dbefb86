// SPDX-License-Identifier: Apache-2.0
// Operations of several threads against the whole library: live calls decide between the original
// and a plan whose tasks the program's threads share.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <whet/whet.h>

#include "tests/report.hpp"

namespace whet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(120);  // for a decision, on a busy machine
constexpr int64_t kSize = 96;

/// The caller and one thread that waits for work.
class Team {
public:
    ~Team() {
        {
            std::lock_guard lock(mutex_);
            stop_ = true;
        }
        changed_.notify_all();
        helper_.join();
    }
    whet_executor executor() { return {run, this}; }

private:
    static void run(void* self, int count, void (*task)(void*, int), void* data) {
        auto& team = *static_cast<Team*>(self);
        {
            std::lock_guard lock(team.mutex_);
            team.task_ = task;
            team.data_ = data;
            team.count_ = count;
        }
        team.changed_.notify_all();
        for (int i = 0; i < count; i += 2) task(data, i);
        std::unique_lock lock(team.mutex_);
        team.changed_.wait(lock, [&] { return team.count_ == 0; });
    }
    void help() {
        for (std::unique_lock lock(mutex_);;) {
            changed_.wait(lock, [&] { return stop_ || count_ > 0; });
            if (stop_) return;
            lock.unlock();
            for (int i = 1; i < count_; i += 2) task_(data_, i);
            lock.lock();
            count_ = 0;
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    void (*task_)(void*, int) = nullptr;
    void* data_ = nullptr;
    int count_ = 0;
    bool stop_ = false;
    std::thread helper_{[this] { help(); }};
};

/// A product of small whole numbers: every order of adding gives the same bits.
struct Product {
    std::vector<float> a = std::vector<float>(kSize * kSize), b = a, c = a, expected = a;
    whet_site* site = nullptr;

    Product(float alpha, int threads) {
        for (int64_t i = 0; i < kSize * kSize; ++i) {
            a[i] = static_cast<float>(i % 7 - 3);
            b[i] = static_cast<float>(i % 5 - 2);
        }
        const int64_t extents[] = {kSize, kSize};
        const whet_tensor tensor{nullptr, WHET_F32, 2, extents, nullptr};
        whet_op op{};
        EXPECT_EQ(
            whet_op_matmul(&op, &tensor, &tensor, &tensor, nullptr, alpha, 0, WHET_EPILOGUE_NONE),
            WHET_OK);
        EXPECT_EQ(whet_op_set_threads(&op, threads), WHET_OK);
        EXPECT_EQ(whet_site_get(&op, &site), WHET_OK) << whet_last_error();
        multiply(alpha, expected);
    }
    void multiply(float alpha, std::vector<float>& out) const {
        for (int64_t i = 0; i < kSize; ++i) {
            for (int64_t j = 0; j < kSize; ++j) {
                volatile float sum = 0;  // an original that is easily beaten
                for (int64_t k = 0; k < kSize; ++k) sum = sum + a[i * kSize + k] * b[k * kSize + j];
                out[i * kSize + j] = alpha * sum;
            }
        }
    }
};

/// Calls until the report has `text`; every answer must be right.
bool call_until(Product& product, Team& team, whet_fallback original, const std::string& text) {
    const whet_executor executor = team.executor();
    void* const operands[] = {product.c.data(), product.a.data(), product.b.data()};
    const auto end = Clock::now() + kPatience;
    while (Clock::now() < end) {
        for (int i = 0; i < 50; ++i) {
            std::memset(product.c.data(), 0xff, product.c.size() * sizeof(float));
            EXPECT_EQ(whet_site_call_on(product.site, operands, 3, &executor, original, &product),
                      WHET_OK);
            if (product.c != product.expected) {
                ADD_FAILURE() << "a wrong answer";
                return false;
            }
        }
        if (test::report().find(text) != std::string::npos) return true;
    }
    return false;
}

TEST(Team, LiveCallsDecideForAPlanThatIsFaster) {
    Team team;
    Product product(2, 2);
    const auto original = [](void* user) {
        auto* const p = static_cast<Product*>(user);
        p->multiply(2, p->c);
    };
    EXPECT_TRUE(
        call_until(product, team, original, "faster than the original, decided for its family"))
        << test::report();
}

TEST(Team, LiveCallsKeepAnOriginalThatIsFaster) {
    Team team;
    Product product(3, 2);
    const auto original = [](void* user) {
        auto* const p = static_cast<Product*>(user);
        std::memcpy(p->c.data(), p->expected.data(), p->c.size() * sizeof(float));
    };
    EXPECT_TRUE(
        call_until(product, team, original, "the original is faster than the best plan so far"))
        << test::report();
}

}  // namespace
}  // namespace whet
