// SPDX-License-Identifier: Apache-2.0
// Tests of background threads and descriptors.
#include "base/threads.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cerrno>

namespace whet::base {
namespace {

TEST(BackgroundThread, RunsIdleNamedAndWithoutSignals) {
    int policy = -1, nice = 0;
    bool blocked = false;
    char name[16] = {};
    BackgroundThread thread;
    ASSERT_TRUE(thread
                    .start("whet-background-test",
                           [&] {
                               policy = sched_getscheduler(0);
                               nice = getpriority(PRIO_PROCESS,
                                                  static_cast<id_t>(syscall(SYS_gettid)));
                               sigset_t mask;
                               pthread_sigmask(SIG_BLOCK, nullptr, &mask);
                               blocked = sigismember(&mask, SIGTERM) == 1 &&
                                         sigismember(&mask, SIGSEGV) == 1;
                               pthread_getname_np(pthread_self(), name, sizeof(name));
                           })
                    .has_value());
    EXPECT_EQ(thread.start("again", [] {}).error().code, Code::internal);
    thread.join();
    EXPECT_FALSE(thread.running());
    EXPECT_EQ(policy, SCHED_IDLE);
    EXPECT_EQ(nice, 19);
    EXPECT_TRUE(blocked);
    EXPECT_STREQ(name, "whet-background");
}

TEST(BackgroundThread, LeavesTheCreatorsMaskAlone) {
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, nullptr, &before);
    BackgroundThread thread;
    ASSERT_TRUE(thread.start("t", [] {}, true).has_value());
    pthread_sigmask(SIG_BLOCK, nullptr, &after);
    EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

TEST(UniqueFd, ClosesOnceAndMoves) {
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    {
        UniqueFd first(descriptor);
        UniqueFd second(std::move(first));
        EXPECT_FALSE(static_cast<bool>(first));
        EXPECT_EQ(second.get(), descriptor);
        EXPECT_EQ(fcntl(descriptor, F_GETFD), FD_CLOEXEC);
    }
    EXPECT_EQ(fcntl(descriptor, F_GETFD), -1);
    EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace whet::base
