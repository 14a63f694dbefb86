// SPDX-License-Identifier: Apache-2.0
// Tests of the log: settings, levels, topics, quoting, the file.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>

namespace whet::base {
namespace {

class Log : public testing::Test {
protected:
    void SetUp() override {
        set_log_sink(
            [](std::string_view line, void* user) { *static_cast<std::string*>(user) += line; },
            &lines_);
    }
    void TearDown() override {
        set_log_sink(nullptr, nullptr);
        ASSERT_TRUE(configure_log({}).has_value());
    }
    void configure(const char* text) {
        auto settings = parse_log_settings(text);
        ASSERT_TRUE(settings.has_value()) << settings.error().message;
        ASSERT_TRUE(configure_log(*settings).has_value());
    }
    std::string lines_;
};

TEST_F(Log, WritesOneLineOfPairs) {
    log_event(
        Level::warning, "env", "unknown_variable",
        {{"name", "WHET_X"}, {"count", 3}, {"share", 0.25}, {"text", "two words"}, {"empty", ""}});
    EXPECT_EQ(lines_,
              "whet level=warning topic=env event=unknown_variable name=WHET_X count=3 share=0.25 "
              "text=\"two words\" empty=\"\"\n");
}

TEST_F(Log, QuotesSoThatALineStaysALine) {
    log_event(Level::error, "t", "e", {{"v", "a\n\"b\"\\"}});
    EXPECT_EQ(lines_, "whet level=error topic=t event=e v=\"a\\x0a\\\"b\\\"\\\\\"\n");
}

TEST_F(Log, InfoIsOffByDefault) {
    log_event(Level::info, "t", "e", {});
    EXPECT_EQ(lines_, "");
    EXPECT_FALSE(log_enabled(Level::info, "t"));
    EXPECT_TRUE(log_enabled(Level::warning, "t"));
}

TEST_F(Log, TopicsAndFilterHoldForInfoOnly) {
    configure("info,tuner,filter=gemm");
    log_event(Level::info, "tuner", "hit", {{"op", "gemm"}});
    log_event(Level::info, "tuner", "hit", {{"op", "conv"}});
    log_event(Level::info, "store", "hit", {{"op", "gemm"}});
    log_event(Level::warning, "store", "full", {});
    log_event(Level::debug, "tuner", "hit", {{"op", "gemm"}});
    EXPECT_EQ(lines_,
              "whet level=info topic=tuner event=hit op=gemm\n"
              "whet level=warning topic=store event=full\n");
}

TEST_F(Log, OffIsSilent) {
    configure("off");
    log_event(Level::error, "t", "e", {});
    EXPECT_EQ(lines_, "");
}

TEST_F(Log, AppendsToAFile) {
    const std::string path = testing::TempDir() + "whet_log_test.txt";
    std::remove(path.c_str());
    set_log_sink(nullptr, nullptr);
    LogSettings settings;
    settings.path = path;
    ASSERT_TRUE(configure_log(settings).has_value());
    log_event(Level::warning, "t", "first", {});
    log_event(Level::warning, "t", "second", {});
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(text,
              "whet level=warning topic=t event=first\nwhet level=warning topic=t event=second\n");
    std::remove(path.c_str());
}

TEST_F(Log, FallsBackWhenTheFileCannotBeOpened) {
    LogSettings settings;
    settings.path = "/nonexistent/folder/log";
    const auto result = configure_log(settings);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, Code::io_error);
}

TEST(LogSettings, RejectsMalformedWords) {
    for (const char* text : {"info,,tuner", "in fo", "level=3", "shout", "info,matmul"}) {
        EXPECT_FALSE(parse_log_settings(text).has_value()) << text;
    }
    EXPECT_EQ(parse_log_settings("tuner")->level, Level::info);
    EXPECT_EQ(parse_log_settings("")->level, Level::warning);
}

}  // namespace
}  // namespace whet::base
