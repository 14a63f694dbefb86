// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/line_program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "tools/whet/bench/live_site.hpp"
#include "tools/whet/bench/machine.hpp"

namespace whet::bench {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

bool write_all(int descriptor, const char* data, size_t size) {
    while (size > 0) {
        const ssize_t written = write(descriptor, data, size);
        if (written < 0 && errno == EINTR && !stop_requested()) continue;
        if (written <= 0) return false;
        data += written;
        size -= static_cast<size_t>(written);
    }
    return true;
}

void close_one(int& descriptor) {
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
}

}  // namespace

LineProgram::~LineProgram() {
    if (pid_ > 0) finish(2);
}

std::string LineProgram::start(const std::vector<std::string>& command,
                               const std::vector<std::string>& environment) {
    signal(SIGPIPE, SIG_IGN);
    int input[2], output[2];
    if (pipe2(input, O_CLOEXEC) != 0) return std::strerror(errno);
    if (pipe2(output, O_CLOEXEC) != 0) {
        close(input[0]);
        close(input[1]);
        return std::strerror(errno);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int failure = posix_spawnp(&pid_, command[0].c_str(), &actions, &attributes,
                                     pointers_to(command).data(), pointers_to(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(input[0]);
    close(output[1]);
    to_ = input[1];
    from_ = output[0];
    if (failure == 0) return {};
    pid_ = -1;
    close_one(to_);
    close_one(from_);
    return command[0] + ": " + std::strerror(failure);
}

int64_t LineProgram::ask(const std::string& line, double timeout_seconds, std::string* answer) {
    const std::string request = line + "\n";
    const int64_t begin = now_ns(), end = begin + static_cast<int64_t>(timeout_seconds * 1e9);
    if (!write_all(to_, request.data(), request.size())) return -1;
    const int64_t written = now_ns();
    while (true) {
        const size_t newline = buffer_.find('\n');
        if (newline != std::string::npos) {
            const int64_t latency = now_ns() - written;
            if (answer) *answer = buffer_.substr(0, newline);
            buffer_.erase(0, newline + 1);
            return latency;
        }
        pollfd waiting{from_, POLLIN, 0};
        const int64_t left_ms = (end - now_ns()) / 1'000'000;
        if (left_ms <= 0 || stop_requested()) return -1;
        if (poll(&waiting, 1, static_cast<int>(left_ms)) <= 0) continue;
        char chunk[4096];
        const ssize_t got = read(from_, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        buffer_.append(chunk, static_cast<size_t>(got));
    }
}

int LineProgram::finish(double seconds) {
    close_one(to_);
    int status = 0;
    const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
    bool ended = false;
    while (!ended && now_ns() < end) {
        ended = waitpid(pid_, &status, WNOHANG) == pid_;
        if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    if (!ended) {
        kill(pid_, SIGKILL);
        waitpid(pid_, &status, 0);
    }
    close_one(from_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace whet::bench
