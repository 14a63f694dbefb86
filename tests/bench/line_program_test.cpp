// SPDX-License-Identifier: Apache-2.0
// The line protocol with a shell as the program.
#include "tools/whet/bench/line_program.hpp"

#include <gtest/gtest.h>

namespace whet::bench {
namespace {

constexpr double kSeconds = 30;

TEST(LineProgram, AnswersLineByLineAndEndsWithItsInput) {
    LineProgram program;
    ASSERT_EQ(program.start({"/bin/sh", "-c", "while read x; do echo \"<$x>\"; done; exit 3"},
                            {"PATH=/bin"}),
              "");
    std::string answer;
    for (const char* line : {"a", "b c", "d"}) {
        EXPECT_GT(program.ask(line, kSeconds, &answer), 0);
        EXPECT_EQ(answer, std::string("<") + line + ">");
    }
    EXPECT_EQ(program.finish(kSeconds), 3);
}

TEST(LineProgram, SaysWhenTheProgramIsGone) {
    LineProgram program;
    ASSERT_EQ(program.start({"/bin/sh", "-c", "read x; exit 0"}, {"PATH=/bin"}), "");
    EXPECT_LT(program.ask("a", kSeconds), 0);
    EXPECT_EQ(program.finish(kSeconds), 0);
}

TEST(LineProgram, SaysWhenItCannotStart) {
    LineProgram program;
    EXPECT_NE(program.start({"/no/such/program"}, {}), "");
}

}  // namespace
}  // namespace whet::bench
