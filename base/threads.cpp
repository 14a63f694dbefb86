// SPDX-License-Identifier: Apache-2.0
// Threads over pthreads.
#include "base/threads.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstring>
#include <memory>

namespace whet::base {
namespace {

struct Start {
    std::string name;
    std::function<void()> body;
    bool normal_priority;
};

void* run(void* argument) {
    const std::unique_ptr<Start> start(static_cast<Start*>(argument));
    if (!start->normal_priority) lower_priority();
    name_thread(start->name.c_str());
    start->body();
    return nullptr;
}

}  // namespace

void block_all_signals() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void lower_priority() noexcept {
    constexpr int kNicest = 19;
    const sched_param parameter{};
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &parameter);
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNicest);
}

void name_thread(const char* name) noexcept {
    char kept[16] = {};  // the kernel's limit, with the final zero
    std::strncpy(kept, name, sizeof(kept) - 1);
    pthread_setname_np(pthread_self(), kept);
}

Result<void> BackgroundThread::start(std::string name, std::function<void()> body,
                                     bool normal_priority) {
    if (started_) return make_error(Code::internal, "thread %s is started twice", name.c_str());
    auto start = std::make_unique<Start>(Start{std::move(name), std::move(body), normal_priority});
    // The mask is inherited: set here, no signal can arrive before the thread has blocked it
    // itself.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int failure = pthread_create(&thread_, nullptr, run, start.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (failure != 0) {
        return make_error(Code::out_of_budget, "cannot start thread %s: %s", start->name.c_str(),
                          std::strerror(failure));
    }
    start.release();
    started_ = true;
    return {};
}

void BackgroundThread::join() noexcept {
    if (!started_) return;
    pthread_join(thread_, nullptr);
    started_ = false;
}

}  // namespace whet::base
