// SPDX-License-Identifier: Apache-2.0
// A result is written, read again, and averaged by family.
#include "tools/whet/bench/result.hpp"

#include <cstdio>

#include <gtest/gtest.h>

namespace whet::bench {
namespace {

CaseResult row(const char* name, const char* family, double us, double ratio) {
    CaseResult one;
    one.suite = "s";
    one.name = name;
    one.op = "linear";
    one.family = family;
    one.served = true;
    one.whet_us = us;
    one.bound_us = us / 2;
    one.peers["torch"] = {us * ratio, {ratio, ratio / 1.01, ratio * 1.01}};
    one.control = {1.0, 0.99, 1.01};
    one.schedule = "matmul";
    one.trials = 3;
    return one;
}

TEST(Result, AveragesByFamilyAndLeavesTinyCasesOut) {
    Result result;
    result.cases = {row("a", "f", 10, 2), row("b", "f", 10, 8), row("c", "g", 10, 4),
                    row("tiny", "g", 0.5, 100)};
    const auto means = result.geomeans("torch");
    EXPECT_NEAR(means.at("f").ratio, 4, 1e-12);
    EXPECT_NEAR(means.at("g").ratio, 4, 1e-12);
    EXPECT_NEAR(means.at("all").ratio, 4, 1e-12);
    EXPECT_TRUE(result.geomeans("openblas").empty());
}

TEST(Result, WritesWhatTheInterfaceNamesAndReadsItAgain) {
    Result result;
    result.cases = {row("a", "f", 10, 2)};
    const nlohmann::json document = to_json(result);
    for (const char* key : {"machine", "settings", "control", "cases", "geomean"})
        EXPECT_TRUE(document.contains(key));
    const nlohmann::json& one = document["cases"][0];
    for (const char* key :
         {"suite", "name", "op", "family", "served", "whet_us", "bound_us", "bound_share", "peers",
          "schedule", "trials", "compiles", "tune_seconds"})
        EXPECT_TRUE(one.contains(key)) << key;
    EXPECT_EQ(one["served"], "whet");
    EXPECT_DOUBLE_EQ(one["bound_share"].get<double>(), 0.5);
    EXPECT_NEAR(document["geomean"]["torch"]["f"]["ratio"].get<double>(), 2, 1e-12);

    const std::string path = testing::TempDir() + "whet_bench_result.json";
    ASSERT_TRUE(write_json(path, document));
    const std::vector<CaseResult> cases = read_cases(path);
    std::remove(path.c_str());
    ASSERT_EQ(cases.size(), 1u);
    EXPECT_EQ(cases[0].name, "a");
    EXPECT_EQ(cases[0].trials, 3);
    EXPECT_DOUBLE_EQ(cases[0].peers.at("torch").ratio.ratio, 2);
    EXPECT_TRUE(read_cases("/nowhere/at/all").empty());
    EXPECT_FALSE(write_json("/nowhere/at/all", document));
}

}  // namespace
}  // namespace whet::bench
