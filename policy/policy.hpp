// SPDX-License-Identifier: Apache-2.0
// What decides the next trials: one interface over search spaces, and the one registry of its
// implementations.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/search_space.hpp"
#include "base/status.hpp"

namespace whet::policy {

/// One point of a task's space that should be tried.
struct Proposal {
    int sketch = 0;
    base::Point point;
    bool operator==(const Proposal&) const = default;
};

/// What became of a proposal.
enum class OutcomeKind : uint8_t {
    timed,    ///< right; `ns` is its time
    refused,  ///< did not build, was wrong or crashed
    skipped,  ///< held back by the caller, which may not use such points: no trial was spent
};
struct Outcome {
    OutcomeKind kind = OutcomeKind::refused;
    double ns = 0;
};

/// Chooses tasks (sites), and points of a task's space. Holds no IR, reads no clock and starts no
/// thread: the same calls with the same seed give the same decisions. Not thread-safe. Spaces must
/// outlive the policy.
class Policy {
public:
    virtual ~Policy() = default;

    /// Adds a task; `drafts` are points ranked by the analytical model, best first. Returns the
    /// task's number, from 0.
    virtual int add_task(const base::SearchSpace& space, std::vector<Proposal> drafts) = 0;
    /// What the program spends on a task: calls a second (0: unknown), and the least time a call
    /// can take.
    virtual void set_load(int task, double calls_per_s, double bound_ns) = 0;

    /// The task that promises most for the next round, among those not settled; -1 when all are.
    virtual int choose_task() = 0;
    /// At most `count` distinct points that were not proposed before; none when the space is used
    /// up.
    virtual std::vector<Proposal> propose(int task, int count) = 0;
    /// Tells the outcome of a proposal, in any order. Points that nobody proposed (from a store)
    /// may be told as well.
    virtual void report(int task, const Proposal& proposal, const Outcome& outcome) = 0;

    /// The best timed point of a task; false when there is none.
    virtual bool best(int task, Proposal* proposal, double* ns) const = 0;
    /// True when further trials of the task promise too little.
    virtual bool settled(int task) const = 0;
    /// Settles a task, whatever it promises.
    virtual void close(int task) = 0;
    /// Opens a settled task again, with twice the patience.
    virtual void reopen(int task) = 0;
};

/// One line of the registry.
struct PolicyEntry {
    std::string_view name;
    std::string_view about;
    std::unique_ptr<Policy> (*make)(uint64_t seed);
};

/// The registry, the default first. `auto` is not in it: it means the first entry.
std::span<const PolicyEntry> policies();

/// Makes a policy by name ("" and "auto": the default). invalid_argument names the known ones.
base::Result<std::unique_ptr<Policy>> make_policy(std::string_view name, uint64_t seed);

}  // namespace whet::policy
