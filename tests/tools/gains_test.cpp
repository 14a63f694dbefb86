// SPDX-License-Identifier: Apache-2.0
// Tests of the table of gains.
#include "tools/whet/report/gains.hpp"

#include <gtest/gtest.h>

#include "tools/whet/report/page.hpp"

namespace whet::tools {
namespace {

constexpr const char* kFirst = R"({"pid": 1, "sites": [
    {"op": "matmul m=1 k=2 n=3", "calls": 100, "served": "whet",
     "before_us": 20.0, "now_us": 10.0, "bound_us": 8.0, "reason": "1.9x in 8 pairs <b>"},
    {"op": "matmul m=9 k=9 n=9", "calls": 1000000, "served": "original", "before_us": 5.0}],
    "tuning": {"trials": 12, "compiles": 3, "published": 1, "rejected": 2, "cpu_seconds": 1.5}})";
constexpr const char* kSecond = R"({"sites": [
    {"op": "matmul m=1 k=2 n=3", "calls": 300, "served": "whet",
     "before_us": 24.0, "now_us": 14.0}],
    "tuning": {"trials": 1}})";

TEST(Gains, MergesProcessesByCalls) {
    const Gains gains = merge_reports({kFirst, kSecond, "", "{broken"});
    EXPECT_EQ(gains.processes, 2);
    EXPECT_EQ(gains.calls, 1000400u);
    EXPECT_EQ(gains.served_calls, 400u);
    EXPECT_EQ(gains.trials, 13u);
    EXPECT_NEAR(gains.saved_seconds, 0.004, 1e-12);
    ASSERT_EQ(gains.rows.size(), 2u);
    EXPECT_EQ(gains.rows[0].op, "matmul m=9 k=9 n=9") << "most time first";
    const GainRow& row = gains.rows[1];
    EXPECT_EQ(row.calls, 400u);
    EXPECT_DOUBLE_EQ(*row.before_us, 23.0);
    EXPECT_DOUBLE_EQ(*row.now_us, 13.0);
    EXPECT_DOUBLE_EQ(*row.bound_us, 8.0);
    EXPECT_FALSE(gains.rows[0].gain().has_value());
}

TEST(Gains, DrawsAlignedColumns) {
    const std::string text = gains_text(merge_reports({kFirst}), 10);
    EXPECT_NE(
        text.find("  shape                   calls   before      now   gain    bound  served by\n"),
        std::string::npos)
        << text;
    EXPECT_NE(
        text.find("  matmul m=1 k=2 n=3        100  20.0 us  10.0 us  2.00x  8.00 us  whet\n"),
        std::string::npos)
        << text;
    EXPECT_NE(text.find("12 trials, 3 compiles, 1 plans published, 2 candidates rejected"),
              std::string::npos)
        << text;
    EXPECT_NE(gains_text(merge_reports({kFirst}), 1).find("and 1 more shapes"), std::string::npos)
        << "two families";
}

TEST(Gains, ManyShapesAreDrawnByFamily) {
    std::vector<GainRow> rows(4);
    rows[0] = {"matmul m=8 k=3 n=5 b=t", "whet", "", "", 10, 8.0, 4.0, 2.0};
    rows[1] = {"conv2d n=1 ci=3", "original", "", "", 5, 9.0, 9.0, std::nullopt};
    rows[2] = {"matmul m=4 k=3 n=5 b=t", "original", "", "", 30, 4.0, 4.0, 1.0};
    rows[3] = {"matmul m=2 k=3 n=5 b=t", "whet", "", "", 100, std::nullopt, 1.0, 1.0};
    const std::vector<GainRow> families = family_rows(rows);
    ASSERT_EQ(families.size(), 2u);
    EXPECT_EQ(families[0].op, "matmul m=2..8 k=3 n=5 b=t");
    EXPECT_EQ(families[0].calls, 140u);
    EXPECT_EQ(families[0].served, "whet 2 of 3");
    EXPECT_DOUBLE_EQ(*families[0].before_us, 5.0) << "only where both times are known";
    EXPECT_DOUBLE_EQ(*families[0].now_us, 4.0);
    EXPECT_DOUBLE_EQ(*families[0].bound_us, 1.25);
    EXPECT_EQ(families[1].op, "conv2d n=1 ci=3") << "alone, as it is";
    Gains gains;
    gains.rows = rows;
    EXPECT_NE(gains_text(gains, 3).find("m=2..8"), std::string::npos);
    EXPECT_EQ(gains_text(gains, 4).find("m=2..8"), std::string::npos);
}

TEST(Gains, NothingGivesOneLine) {
    const std::string text = gains_text({}, 10);
    EXPECT_EQ(text.find('\n'), text.size() - 1);
}

TEST(Gains, PageEscapesText) {
    const std::string page = gains_html(merge_reports({kFirst}));
    EXPECT_EQ(page.find("<b>"), std::string::npos);
    EXPECT_NE(page.find("&lt;b&gt;"), std::string::npos);
}

TEST(Gains, FormatsWithThreeDigits) {
    EXPECT_EQ(format_time(std::nullopt), "-");
    EXPECT_EQ(format_time(0.0), "0.00 us");
    EXPECT_EQ(format_time(9.994), "9.99 us");
    EXPECT_EQ(format_time(12.34), "12.3 us");
    EXPECT_EQ(format_time(999.4), "999 us");
    EXPECT_EQ(format_time(1500), "1.50 ms");
    EXPECT_EQ(format_time(2.5e6), "2.50 s");
    EXPECT_EQ(format_count(0), "0");
    EXPECT_EQ(format_count(999), "999");
    EXPECT_EQ(format_count(1234567), "1,234,567");
}

}  // namespace
}  // namespace whet::tools
