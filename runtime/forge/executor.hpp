// SPDX-License-Identifier: Apache-2.0
// Where candidates run: verified against the reference, timed against an incumbent; in this process
// or in a worker.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "jit/microkernel.hpp"
#include "jit/schedule/schedule.hpp"
#include "runtime/store/store.hpp"

namespace whet::runtime::forge {

/// A compiled microkernel as the forge holds it; `id` is its content's hash.
struct BuiltKernel {
    jit::Blob blob;
    uint64_t id = 0;
    bool proven = false;  ///< passed the static check
};
using KernelRef = std::shared_ptr<const BuiltKernel>;

/// A schedule with its microkernels, in the order of the lowered plan's `kernels` (empty for
/// Isa::portable).
struct Candidate {
    jit::Schedule schedule;
    std::vector<KernelRef> kernels;
};

enum class Verdict : uint8_t {
    right,      ///< all checks passed
    wrong,      ///< a wrong result, or memory touched that is not the result's
    crashed,    ///< a signal ended the worker
    timed_out,  ///< the time limit ended the worker
    failed,     ///< could not be tried (memory, executable memory): says nothing of the candidate
};

struct TrialOptions {
    bool measure = true;  ///< time it against the incumbent, when it is right
    bool retest = true;   ///< time a winner again on fresh samples
    int64_t reference_budget_ns =
        100'000'000;  ///< for the first candidate of an operation: computing the expected values
    int64_t sample_ns = 100'000;  ///< length of one sample of a short operation
    int64_t slice_ns = 300'000;   ///< the longest sample: of a longer operation, a slice is timed
    int max_quads = 10;           ///< ABBA or BAAB groups before the interval must have decided
};

struct TrialResult {
    Verdict verdict = Verdict::failed;
    std::string reason;  ///< why not right; empty otherwise
    uint64_t checked_elements =
        0;  ///< results compared with the reference itself (others: with a plan so compared)
    bool measured = false;
    bool promising =
        false;         ///< won at first; with `won` false the fresh samples did not confirm it
    bool won = false;  ///< faster than the incumbent by the margin, with its interval, also on
                       ///< fresh samples
    double candidate_ns = 0;  ///< of one call; the median of its samples
    double incumbent_ns = 0;  ///< likewise; 0 without an incumbent
    double ratio = 1, low = 0,
           high = 0;     ///< incumbent time / candidate time with its 95 % interval
    double control = 1;  ///< the incumbent against itself in the same run; 1 when not taken
    int quads = 0, rejected_quads = 0;
    double cpu_seconds = 0;  ///< spent on this trial
};

/// Not thread-safe. The operation's buffers and expected values are kept between calls, up to a
/// memory budget.
class Executor {
public:
    virtual ~Executor() = default;
    /// Verifies a candidate and times it. incumbent: null for none; it must have been verified here
    /// before.
    virtual TrialResult trial(const whet_op& op, const Candidate& candidate,
                              const Candidate* incumbent, const TrialOptions& options) = 0;
    /// Verifies microkernels one by one, alone, against their definition (kernel_check.hpp): about
    /// a millisecond each. The reason names the first that fails.
    virtual TrialResult check_kernels(const std::vector<KernelRef>& kernels) = 0;
    /// Measures peak and bandwidth, with a compute-bound tile microkernel (null: scalar code, for
    /// portable). About 0.3 s.
    virtual base::Result<MachineRecord> measure_machine(const BuiltKernel* kernel) = 0;
    /// True when a candidate that faults or hangs harms nothing: code that is not proven may run.
    virtual bool contained() const = 0;
    /// True once nothing can be run any more: what it runs on was killed.
    virtual bool lost() const { return false; }
    /// CPU seconds spent outside of this process.
    virtual double outside_cpu_seconds() const = 0;
};

struct ExecutorSettings {
    jit::Isa isa = jit::Isa::portable;
    uint32_t mxcsr = 0x1f80;
    size_t memory_bytes = 512u << 20;
    uint64_t seed = 0;
};

/// Runs everything on the calling thread. `guarded`: operands touch unmapped pages, so a bad
/// candidate faults.
std::unique_ptr<Executor> make_local_executor(const ExecutorSettings& settings, bool guarded);

/// True when an operation can be tried: strides that are not negative, operands that fit the
/// budget.
base::Result<void> check_operands(const whet_op& op, size_t memory_bytes);

}  // namespace whet::runtime::forge
