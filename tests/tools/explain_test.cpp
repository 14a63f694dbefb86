// SPDX-License-Identifier: Apache-2.0
// Tests of the sentences that explain a process.
#include "tools/whet/report/explain.hpp"

#include <gtest/gtest.h>

namespace whet::tools {
namespace {

Gains report_with(const std::string& site, const std::string& tuning) {
    return merge_reports({R"({"sites": [)" + site +
                          R"(], "bypassed_calls": {"unsupported": 0, "threads": 120, "full": 0},
                          "tuning": {)" +
                          tuning + "}}"});
}

std::string site(const std::string& served, const std::string& reason) {
    return R"({"op": "matmul m=32 k=8 n=9", "calls": 1200, "served_calls": 1000, "before_us": 20,
               "now_us": 10, "bound_us": 8, "gain": {"ratio": 2, "low": 1.9, "high": 2.125},
               "served": ")" +
           served + R"(", "reason": ")" + reason + R"(", "schedule": ""})";
}

TEST(Explain, SaysWhatServesWhyAndWhatItBrings) {
    const auto text =
        explain_text(report_with(site("whet", "faster than the original, decided for its family"),
                                 R"("forge": "process", "rejected_static": 4, "rejected_wrong": 0,
                       "rejected_crashed": 1, "doing": "timing")"),
                     "k=8");
    ASSERT_TRUE(text.has_value());
    EXPECT_EQ(*text,
              "matmul m=32 k=8 n=9\n"
              "  1,200 calls, 1,000 answered by plans of whet\n"
              "  before 20.0 us, now 10.0 us a call, gain 2.00x [1.90, 2.12]; the machine allows "
              "8.00 us (80 % of it reached)\n"
              "  served by whet: faster than the original, decided for its family\n\n"
              "of all candidates in this process: 4 refused by the static check, 1 crashed in the "
              "helper\n"
              "tuning now: timing\n");
}

TEST(Explain, GivesEveryReasonItsMeaning) {
    const struct {
        const char *name, *reason, *forge, *expected;
    } kCases[] = {
        {"no plan", "no plan yet", "process", "No candidate has passed"},
        {"declined", "the original is faster than the best plan so far", "process",
         "none was faster by enough"},
        {"packed", "no room for packed operands (WHET_BUDGET_PACKED)", "thread", "allows more"},
        {"code", "generated code needs 64 bytes more, 64 of 64 are used", "process",
         "WHET_BUDGET_CODE"},
        {"regretted", "slower than the original on live calls", "process", "was taken back"},
        {"evicted", "evicted: among the coldest (WHET_BUDGET_SITES)", "process", "keeps more"},
        {"disabled", "no plan yet", "WHET_ENABLE=0", "not tuned: WHET_ENABLE=0\n"},
        {"setuid", "no plan yet", "a setuid program", "not tuned: a setuid program\n"},
        {"early", "no plan yet", "none", "not tuned: no helper has been started yet\n"},
        {"unknown", "gave a wrong result in call 7", "process",
         "served by the original: gave a wrong result in call 7\n"},
    };
    for (const auto& one : kCases) {
        const auto text = explain_text(report_with(site("original", one.reason),
                                                   R"("forge": ")" + std::string(one.forge) + "\""),
                                       "matmul");
        ASSERT_TRUE(text.has_value()) << one.name;
        EXPECT_NE(text->find(one.expected), std::string::npos) << one.name << "\n" << *text;
        EXPECT_NE(text->find("none was refused"), std::string::npos) << one.name;
        const bool untuned = text->find("not tuned") != std::string::npos;
        EXPECT_EQ(untuned,
                  std::string(one.forge) != "process" && std::string(one.forge) != "thread")
            << one.name;
    }
}

TEST(Explain, AWholeNameMeansThatOneAlone) {
    const Gains gains = report_with(R"({"op": "matmul m=1 k=2", "calls": 1, "served": "original"},
                                       {"op": "matmul m=1 k=2 b=t", "calls": 1, "served": "original"})",
                                    "");
    EXPECT_EQ(explain_text(gains, "matmul m=1 k=2")->find("b=t"), std::string::npos);
    EXPECT_NE(explain_text(gains, "m=1 k=2")->find("b=t"), std::string::npos);
}

TEST(Explain, SaysWhyAnOperationMayBeMissing) {
    const Gains gains = report_with("", R"("forge": "WHET_ENABLE=0")");
    EXPECT_FALSE(explain_text(gains, "conv").has_value());
    EXPECT_EQ(explain_absence(gains, "conv"),
              "no operation of the process contains \"conv\"; it has none; calls left to the "
              "original unseen: 120 on several threads; nothing is tuned: WHET_ENABLE=0");
}

}  // namespace
}  // namespace whet::tools
