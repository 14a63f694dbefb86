// SPDX-License-Identifier: Apache-2.0
// A plan that serves although the original is faster goes: one that a store brought, and one that
// looked better in the background than it is for the program. Every scene is a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <whet/whet.h>

#include "tests/report.hpp"

namespace whet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(120);  // of a busy machine
constexpr int64_t kSize = 96;
constexpr const char* kByWhet = "\"served\": \"whet\"";
constexpr const char* kBack = "slower than the original on live calls";

/// A product of small whole numbers, with an original that is as fast as the test wants: a plain
/// loop, or a copy of the known result.
struct Product {
    std::vector<float> a, b, expected, c;
    whet_op op{};
    whet_site* site = nullptr;
    std::atomic<bool> slow_live{true}, slow_background{true};
    std::atomic<int> background_calls{0};

    Product() : a(kSize * kSize), b(a.size()), expected(a.size()), c(a.size()) {
        for (size_t i = 0; i < a.size(); ++i) {
            a[i] = static_cast<float>(i % 7) - 3;
            b[i] = static_cast<float>(i % 5) - 2;
        }
        multiply(expected.data(), a.data(), b.data());
        const int64_t extents[] = {kSize, kSize};
        const whet_tensor tensor{nullptr, WHET_F32, 2, extents, nullptr};
        whet_op_matmul(&op, &tensor, &tensor, &tensor, nullptr, 1, 0, WHET_EPILOGUE_NONE);
        whet_site_get(&op, &site);
        whet_site_set_original(site, background, this);
    }
    static void multiply(float* c, const float* a, const float* b) {
        for (int64_t i = 0; i < kSize; ++i) {
            for (int64_t j = 0; j < kSize; ++j) {
                float sum = 0;
                for (int64_t k = 0; k < kSize; ++k) sum += a[i * kSize + k] * b[k * kSize + j];
                c[i * kSize + j] = sum;
            }
        }
    }
    void answer(float* c, const float* a, const float* b, bool slow) const {
        if (slow)
            multiply(c, a, b);
        else
            std::memcpy(c, expected.data(), expected.size() * sizeof(float));
    }
    static void live(void* user) {
        auto* const self = static_cast<Product*>(user);
        self->answer(self->c.data(), self->a.data(), self->b.data(), self->slow_live);
    }
    static void background(const whet_op*, void* const* operands, void* user) {
        auto* const self = static_cast<Product*>(user);
        ++self->background_calls;
        self->answer(static_cast<float*>(operands[WHET_DST]),
                     static_cast<const float*>(operands[WHET_A]),
                     static_cast<const float*>(operands[WHET_B]), self->slow_background);
    }
    bool call() {
        void* operands[] = {c.data(), a.data(), b.data()};
        c.assign(c.size(), -1);
        return whet_site_call(site, operands, 3, live, this) == WHET_OK && c == expected;
    }
    /// One call, then none until a plan serves: the original's time is not known from live calls.
    bool call_once_until_served() {
        if (!call()) return false;
        for (const auto end = Clock::now() + kPatience; Clock::now() < end; ::usleep(1000)) {
            if (test::report().find(kByWhet) != std::string::npos) return true;
        }
        return false;
    }
    /// Calls until the report holds `text`; false: a wrong answer, or patience is over.
    bool call_until(const std::string& text) {
        for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
            for (int i = 0; i < 50; ++i) {
                if (!call()) return false;
            }
            if (test::report().find(text) != std::string::npos) return true;
            ::usleep(1000);
        }
        std::fprintf(stderr, "no %s in\n%s\n", text.c_str(), test::report().c_str());
        return false;
    }
};

class SecondThoughts : public testing::Test {
protected:
    void SetUp() override {
        char name[] = "/tmp/whet_second_thoughts_XXXXXX";
        folder_ = ::mkdtemp(name);
    }
    void TearDown() override {
        // The last helper may still write.
        std::error_code ignored;
        for (int i = 0; i < 200 && std::filesystem::exists(folder_); ++i, ::usleep(50'000))
            std::filesystem::remove_all(folder_, ignored);
    }
    /// Runs a scene in a process that uses Whet for itself.
    void scene(const char* force, const char* tune, const std::function<bool()>& what) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::setenv("WHET_STORE", (folder_ + "/store.db").c_str(), 1);
            ::setenv("WHET_BUDGET_CPU", "1", 1);
            ::setenv("WHET_FORCE", force, 1);
            ::setenv("WHET_TUNE", tune, 1);
            ::_exit(what() ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    std::string folder_;
};

/// Waits for an answer of the forge: what was sent to it before has been done then.
bool ask_forge() {
    return whet_text_call("hold off", [](const char*, size_t, void*) {}, nullptr) == WHET_OK;
}

TEST_F(SecondThoughts, OfAPlanFromTheStore) {
    scene("whet", "on", [] {
        Product product;
        return product.call_until(kByWhet) && ask_forge();
    });
    scene("", "off", [] {
        Product product;
        product.slow_live = product.slow_background = false;
        if (!product.call_once_until_served()) return false;
        if (!product.call_until(kBack)) return false;
        const std::string text = test::report();
        return text.find(kByWhet) == std::string::npos && product.background_calls > 0 &&
               text.find("\"rolled_back\": 0") == std::string::npos && product.call() && ask_forge();
    });
    // The store has learnt it.
    scene("", "off", [] {
        Product product;
        product.slow_live = product.slow_background = false;
        for (int i = 0; i < 100; ++i) {
            if (!product.call()) return false;
        }
        return ask_forge() && product.call() && test::report().find(kByWhet) == std::string::npos;
    });
}

TEST_F(SecondThoughts, NoneOfAPlanFromTheStoreThatIsFaster) {
    scene("whet", "on", [] {
        Product product;
        return product.call_until(kByWhet) && ask_forge();
    });
    scene("", "off", [] {
        Product product;
        if (!product.call_once_until_served()) return false;
        // Until the original was timed: it is called no more.
        const auto end = Clock::now() + kPatience;
        for (int before = -1; product.background_calls == 0 || before != product.background_calls;) {
            before = product.background_calls;
            const auto later = Clock::now() + std::chrono::milliseconds(300);
            while (Clock::now() < later) {
                if (!product.call()) return false;
            }
            if (later > end) return false;
        }
        return product.call_until(kByWhet);
    });
}

TEST_F(SecondThoughts, OfAPlanThatIsSlowerInTheProgram) {
    scene("", "on", [] {
        Product product;
        product.slow_live = false;  // in the program the original finds what the background has not
        if (!product.call_until(kByWhet)) return false;
        product.slow_background = false;
        return product.call_until(kBack);
    });
}

}  // namespace
}  // namespace whet
