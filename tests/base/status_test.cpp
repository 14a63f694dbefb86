// SPDX-License-Identifier: Apache-2.0
// Tests of Error, Result and WHET_TRY.
#include "base/status.hpp"

#include <gtest/gtest.h>

#include "whet/whet.h"

namespace whet::base {
namespace {

Result<int> half(int value) {
    if (value % 2 != 0)
        return make_error(Code::invalid_argument, "got %d, expected an even number", value);
    return value / 2;
}

Result<int> quarter(int value) {
    WHET_TRY(const int once, half(value));
    WHET_TRY(const int twice, half(once));
    return twice;
}

Result<void> check_quarter(int value) {
    WHET_TRY_VOID(quarter(value));
    return {};
}

TEST(Status, TryPassesValuesOn) {
    auto result = quarter(12);
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(*result, 3);
    EXPECT_TRUE(check_quarter(12).has_value());
}

TEST(Status, TryReturnsTheFirstError) {
    auto result = quarter(6);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::invalid_argument);
    EXPECT_EQ(result.error().message, "got 3, expected an even number");
    EXPECT_FALSE(check_quarter(6).has_value());
}

TEST(Status, LongMessagesAreComplete) {
    const std::string text(5000, 'x');
    EXPECT_EQ(make_error(Code::io_error, "%s.", text.c_str()).message, text + ".");
    EXPECT_EQ(make_error(Code::io_error, "%s", "").message, "");
}

TEST(Status, CodesEqualTheAbi) {
    EXPECT_EQ(static_cast<int>(Code::ok), WHET_OK);
    EXPECT_EQ(static_cast<int>(Code::unsupported), WHET_UNSUPPORTED);
    EXPECT_EQ(static_cast<int>(Code::internal), WHET_INTERNAL);
    EXPECT_STREQ(code_name(Code::verify_failed), "verify_failed");
    EXPECT_STREQ(code_name(static_cast<Code>(99)), "unknown");
}

}  // namespace
}  // namespace whet::base
