// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/self_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "tools/whet/run/run.hpp"

namespace whet::bench {
namespace {

constexpr int kNotStarted = 127;

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

constexpr const char* kParent = "BENCH_PARENT";  // the process that a child of this tool belongs to

}  // namespace

void end_with_parent() {
    const char* const parent = std::getenv(kParent);
    if (parent == nullptr) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != std::atoi(parent)) raise(SIGTERM);  // it ended before the line above
}

int run_self(std::vector<std::string> arguments,
             const std::vector<std::pair<std::string, std::string>>& changes,
             const std::string& output_path) {
    arguments.insert(arguments.begin(), "whet");
    auto with_parent = changes;
    with_parent.emplace_back(kParent, std::to_string(getpid()));
    std::vector<std::string> environment = tools::child_environment(with_parent);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (!output_path.empty())
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_path.c_str(),
                                         O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = -1;
    const int failure = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr,
                                    pointers_to(arguments).data(), pointers_to(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) return kNotStarted;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return kNotStarted;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace whet::bench
