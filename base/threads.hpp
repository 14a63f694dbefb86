// SPDX-License-Identifier: Apache-2.0
// Threads that the host does not feel, and handles that close themselves.
#pragma once

#include <pthread.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "base/status.hpp"

namespace whet::base {

/// A file descriptor that is closed with its owner.
class UniqueFd {
public:
    UniqueFd() = default;
    explicit UniqueFd(int descriptor) noexcept : descriptor_(descriptor) {}
    UniqueFd(UniqueFd&& other) noexcept : descriptor_(other.release()) {}
    UniqueFd& operator=(UniqueFd&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    UniqueFd(const UniqueFd&) = delete;
    UniqueFd& operator=(const UniqueFd&) = delete;
    ~UniqueFd() { reset(); }

    int get() const noexcept { return descriptor_; }
    explicit operator bool() const noexcept { return descriptor_ >= 0; }
    int release() noexcept { return std::exchange(descriptor_, -1); }
    void reset(int descriptor = -1) noexcept {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = descriptor;
    }

private:
    int descriptor_ = -1;
};

/// Blocks every signal in the calling thread, so that the host's handlers never run on a thread of
/// Whet.
void block_all_signals() noexcept;
/// Gives the calling thread SCHED_IDLE and nice 19. What the system refuses is left as it is.
void lower_priority() noexcept;
/// Names the calling thread (at most 15 characters are kept).
void name_thread(const char* name) noexcept;

/// A thread of lowest priority with all signals blocked from its first instruction; joined by its
/// owner. Not thread-safe itself.
class BackgroundThread {
public:
    BackgroundThread() = default;
    BackgroundThread(const BackgroundThread&) = delete;
    BackgroundThread& operator=(const BackgroundThread&) = delete;
    /// Joins when the owner forgot to: `body` must end by then.
    ~BackgroundThread() { join(); }

    /// Starts `body`. `normal_priority`: the thread keeps the creator's priority. out_of_budget
    /// when the system has no thread left; internal when one runs already.
    Result<void> start(std::string name, std::function<void()> body, bool normal_priority = false);
    bool running() const noexcept { return started_; }
    void join() noexcept;
    /// Forgets the thread without joining, in the child of a fork, where it does not exist.
    void forget() noexcept { started_ = false; }

private:
    pthread_t thread_{};
    bool started_ = false;
};

}  // namespace whet::base
