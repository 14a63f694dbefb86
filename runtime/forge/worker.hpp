// SPDX-License-Identifier: Apache-2.0
// The executor that runs candidates in a worker process, so that a crash, a hang or a memory bomb
// ends only the worker.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>

#include "base/status.hpp"
#include "base/threads.hpp"
#include "runtime/forge/executor.hpp"

namespace whet::runtime::forge {

/// A process that makes workers by fork: made itself before the forge has a thread or LLVM, so that
/// every worker begins small and clean. It starts a worker, waits for its end, reports it, and
/// starts the next; it ends with the forge.
class Zygote {
public:
    /// Forks. Must be called while the process has one thread. io_error when there are no
    /// descriptors or processes left. lowest_priority: of the workers; else they have the caller's,
    /// for tests that must end on a busy machine.
    static base::Result<std::unique_ptr<Zygote>> start(bool lowest_priority = true);

    int requests() const { return requests_.get(); }
    int deaths() const { return deaths_.get(); }
    /// The running worker, 0 when there is none.
    pid_t worker() const { return worker_->load(); }
    ~Zygote();

private:
    Zygote(base::UniqueFd requests, base::UniqueFd deaths, std::atomic<pid_t>* worker)
        : requests_(std::move(requests)), deaths_(std::move(deaths)), worker_(worker) {}
    base::UniqueFd requests_;     ///< SOCK_SEQPACKET: a request, a reply
    base::UniqueFd deaths_;       ///< SOCK_SEQPACKET: one message for each worker that ended
    std::atomic<pid_t>* worker_;  ///< in a page shared with the zygote
};

/// Trials run in the zygote's workers under CPU time and memory limits. Errors of a worker become
/// Verdict::crashed and Verdict::timed_out.
std::unique_ptr<Executor> make_worker_executor(std::unique_ptr<Zygote> zygote,
                                               const ExecutorSettings& settings);

}  // namespace whet::runtime::forge
