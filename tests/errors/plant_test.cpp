// SPDX-License-Identifier: Apache-2.0
// Bad candidates put in front of verification (cases C01, C02): the program never dies, never
// waits, never sees a wrong answer; the forge counts what it refused.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <whet/whet.h>

#include "tests/report.hpp"
#include "tests/runtime/op_helpers.hpp"

namespace whet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPatience = std::chrono::seconds(60);  // for a forge on a busy machine

using test::report;

/// The number behind the first `"key": ` of the report.
double number(const std::string& key) {
    const std::string text = report();
    const size_t at = text.find("\"" + key + "\": ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + key.size() + 4);
}

struct Candidate {
    const char* name;
    std::string code;  ///< x86-64; empty: `schedule`
    const char* schedule;
    int skip_static;
};

class Planted : public ::testing::TestWithParam<Candidate> {};

TEST_P(Planted, IsRefusedWhileAnswersStayRight) {
    const Candidate& candidate = GetParam();
    if (number("code_bytes") < 0) GTEST_SKIP();
    // Every candidate has a site of its own, so that nothing of an earlier one matters.
    static int64_t rows = 20;
    test::Product product(++rows, 40, 48);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    void* operands[3];
    product.operands(operands);
    const auto original = [](void* user) {
        auto& p = *static_cast<test::Product*>(user);
        std::memcpy(p.c.data(), p.expected.data(), p.c.size() * sizeof(float));
    };
    const auto call = [&] {
        std::fill(product.c.begin(), product.c.end(), NAN);
        ASSERT_EQ(whet_site_call(site, operands, 3, original, &product), WHET_OK);
        for (int64_t i = 0; i < product.m * product.n; ++i)
            ASSERT_NEAR(product.c[i], product.expected[i], 1e-4) << i;
    };
    call();
    const double before = number("rejected");
    const whet_status planted =
        candidate.code.empty() ? whet_test_plant(site, candidate.schedule, 0, candidate.skip_static)
                               : whet_test_plant(site, candidate.code.data(), candidate.code.size(),
                                                 candidate.skip_static);
    if (planted == WHET_UNSUPPORTED) GTEST_SKIP() << whet_last_error();
    ASSERT_EQ(planted, WHET_OK) << whet_last_error();
    const auto end = Clock::now() + kPatience;
    while (number("rejected") <= before && Clock::now() < end && !HasFatalFailure()) {
        for (int i = 0; i < 50; ++i) call();
        whet_drain(0.05);  // lets the forge have the core
    }
    EXPECT_GT(number("rejected"), before) << report();
}

using std::string_literals::operator""s;

INSTANTIATE_TEST_SUITE_P(
    Cases, Planted,
    ::testing::Values(Candidate{"Ud2", "\x0f\x0b"s, "", 0},
                      Candidate{"Ud2PastTheStaticCheck", "\x0f\x0b"s, "", 1},
                      Candidate{"NullStore", "\x31\xc0\xc7\x00\x00\x00\x00\x00\xc3"s, "", 1},
                      Candidate{"EndlessLoop", "\xeb\xfe"s, "", 1},
                      Candidate{"WritesNothing", "\xc3"s, "", 1},
                      Candidate{"Syscall", "\x0f\x05\xc3"s, "", 0}),
    [](const auto& info) { return info.param.name; });

TEST(Plant, NeedsTheHook) {
    test::Product product(19, 40, 48);
    whet_site* site = nullptr;
    ASSERT_EQ(whet_site_get(&product.op, &site), WHET_OK);
    EXPECT_EQ(whet_test_plant(nullptr, "x", 0, 0), WHET_INVALID_ARGUMENT);
    EXPECT_EQ(whet_test_plant(site, nullptr, 0, 0), WHET_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace whet
