// SPDX-License-Identifier: Apache-2.0
// Tests of the control page, both sides: counters, reports, commands, processes that fork or die.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "runtime/report/control_page.hpp"
#include "tools/whet/run/control_host.hpp"

namespace whet {
namespace {

using runtime::ControlCounters;
using runtime::ControlPage;
using tools::ControlHost;

class ControlPageTest : public testing::Test {
protected:
    void SetUp() override { ASSERT_EQ(host_.create(), ""); }
    ControlHost host_;
};

TEST_F(ControlPageTest, ParentSeesCountersAndReport) {
    EXPECT_TRUE(host_.read(true).empty());
    auto page = ControlPage::open(host_.path());
    ASSERT_TRUE(page.has_value()) << page.error().message;
    ControlCounters counters;
    counters.calls = 42;
    counters.saved_ns = 1ull << 40;
    (*page)->publish(counters, "timing matmul m=32");
    (*page)->publish_report("{\"sites\": []}");
    const auto views = host_.read(true);
    ASSERT_EQ(views.size(), 1u);
    EXPECT_EQ(views[0].pid, getpid());
    EXPECT_EQ(views[0].calls, 42u);
    EXPECT_EQ(views[0].saved_ns, 1ull << 40);
    EXPECT_EQ(views[0].activity, "timing matmul m=32");
    EXPECT_EQ(views[0].report, "{\"sites\": []}");
    EXPECT_FALSE(views[0].ended);
    EXPECT_EQ(host_.read(false)[0].report, "");
    (*page)->end();
    EXPECT_TRUE(host_.read(false)[0].ended);
}

TEST_F(ControlPageTest, AReportThatDoesNotFitLeavesTheLast) {
    auto page = ControlPage::open(host_.path());
    ASSERT_TRUE(page.has_value());
    (*page)->publish_report("{}");
    (*page)->publish_report(std::string(WHET_CONTROL_TEXT_BYTES + 1, 'x'));
    EXPECT_EQ(host_.read(true)[0].report, "{}");
    (*page)->publish_report(std::string(WHET_CONTROL_TEXT_BYTES, 'x'));
    EXPECT_EQ(host_.read(true)[0].report, std::string(WHET_CONTROL_TEXT_BYTES, 'x'));
    (*page)->publish({}, std::string(1000, 'y'));
    EXPECT_EQ(host_.read(true)[0].activity, std::string(WHET_CONTROL_ACTIVITY_BYTES - 1, 'y'));
}

TEST_F(ControlPageTest, CommandsReachAllOrOne) {
    auto page = ControlPage::open(host_.path());
    ASSERT_TRUE(page.has_value());
    EXPECT_EQ((*page)->poll(), WHET_CONTROL_NONE);
    const auto pause = host_.command_all(WHET_CONTROL_PAUSE);
    EXPECT_FALSE(host_.wait_acknowledged(pause, 0));
    EXPECT_EQ((*page)->poll(), WHET_CONTROL_PAUSE);
    EXPECT_EQ((*page)->poll(), WHET_CONTROL_PAUSE) << "until it is acknowledged";
    (*page)->acknowledge();
    EXPECT_EQ((*page)->poll(), WHET_CONTROL_NONE);
    EXPECT_TRUE(host_.wait_acknowledged(pause, 0));
    EXPECT_FALSE(host_.command_one(1, WHET_CONTROL_PIN).has_value());
    ASSERT_TRUE(host_.command_one(getpid(), WHET_CONTROL_PIN).has_value());
    EXPECT_EQ((*page)->poll(), WHET_CONTROL_PIN);
    (*page)->acknowledge();
    host_.command_all(WHET_CONTROL_RESUME);
    EXPECT_EQ((*page)->poll(), WHET_CONTROL_RESUME);
}

TEST_F(ControlPageTest, AForkedChildOpensItsOwnSlot) {
    auto page = ControlPage::open(host_.path());
    ASSERT_TRUE(page.has_value());
    const auto word = host_.command_all(WHET_CONTROL_DISABLE);
    (*page)->acknowledge();
    const pid_t child = fork();
    if (child == 0) {
        if ((*page)->owned()) _exit(1);
        auto own = ControlPage::open(host_.path());
        if (!own.has_value() || !(*own)->owned()) _exit(2);
        if ((*own)->poll() != WHET_CONTROL_DISABLE) _exit(3);  // given before the child began
        ControlCounters counters;
        counters.calls = 7;
        (*own)->publish(counters, "");
        _exit(0);  // without end(), as a crash would
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0);
    const auto views = host_.read(false);
    ASSERT_EQ(views.size(), 2u);
    EXPECT_EQ(views[1].pid, child);
    EXPECT_EQ(views[1].calls, 7u);
    (*page)->poll();
    (*page)->acknowledge();
    EXPECT_TRUE(host_.wait_acknowledged(word, 0)) << "a dead process is not waited for";
}

TEST_F(ControlPageTest, AProcessKilledWhileItWritesLeavesAWholeReport) {
    for (int round = 0; round < 20; ++round) {
        ControlHost host;
        ASSERT_EQ(host.create(), "");
        int ready[2];
        ASSERT_EQ(pipe(ready), 0);
        const pid_t child = fork();
        if (child == 0) {
            auto page = ControlPage::open(host.path());
            if (!page.has_value()) _exit(1);
            const std::string texts[] = {std::string(300'000, 'a'), std::string(400'000, 'b')};
            for (unsigned i = 0;; ++i) {
                (*page)->publish_report(texts[i % 2]);
                if (i == 1 && write(ready[1], "x", 1) != 1) _exit(2);
            }
        }
        char byte = 0;
        ASSERT_EQ(read(ready[0], &byte, 1), 1);
        ASSERT_EQ(kill(child, SIGKILL), 0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        close(ready[0]);
        close(ready[1]);
        const std::string report = host.read(true)[0].report;
        EXPECT_TRUE(report == std::string(300'000, 'a') || report == std::string(400'000, 'b'))
            << round << ": " << report.size() << " bytes";
    }
}

TEST_F(ControlPageTest, RefusesWhatIsNoPage) {
    EXPECT_EQ(ControlPage::open("/nonexistent").error().code, base::Code::io_error);
    EXPECT_EQ(ControlPage::open("/proc/self/exe").error().code, base::Code::io_error);
    const std::string path = testing::TempDir() + "whet_not_a_page";
    FILE* file = fopen(path.c_str(), "w");
    ASSERT_NE(file, nullptr);
    fputs("text", file);
    fclose(file);
    EXPECT_EQ(ControlPage::open(path).error().code, base::Code::unsupported);
    remove(path.c_str());
    EXPECT_NE(ControlHost().attach(getpid()), "");
}

}  // namespace
}  // namespace whet
