// SPDX-License-Identifier: Apache-2.0
// The store: schedules, blobs, timings and verdicts of earlier runs, in one SQLite file shared by
// many processes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <whet/whet.h>

#include "base/status.hpp"
#include "jit/microkernel.hpp"

struct sqlite3;

namespace whet::runtime {

/// What is known of a stored plan.
enum class PlanState : uint8_t {
    offered = 0,        ///< verified and timed in the forge, never served
    adopted = 1,        ///< served in a program
    declined = 2,       ///< right, but the program kept what it had
    original_kept = 3,  ///< the family stayed with the original library
};

/// One plan of one operation on one machine.
struct StoredPlan {
    whet_op op{};
    std::string schedule;  ///< as text
    PlanState state = PlanState::offered;
    double time_ns = 0;                   ///< of one call: cold weights, warm activations
    double ratio = 0, low = 0, high = 0;  ///< against the incumbent of then; 0 when none
    double bound_ns = 0;
    int64_t trials = 0;                ///< spent on the operation so far
    std::string conditions;            ///< how it was timed, for people
    std::vector<std::string> kernels;  ///< specs of its microkernels, as text
};

/// A schedule that must never serve an operation again.
struct QuarantinedPlan {
    whet_op op{};
    uint64_t schedule_hash = 0;
    std::string reason;
};

/// What was measured of the machine once.
struct MachineRecord {
    double peak_gflops = 0, stream_gbs = 0;
};

/// Everything that a warm start needs, read by one query per table.
struct StoreContents {
    std::vector<StoredPlan> plans;  ///< the newest row of each operation
    std::vector<jit::Blob> blobs;   ///< only those whose keyed hash fits
    std::vector<QuarantinedPlan> quarantine;
    MachineRecord machine;  ///< zeros when unknown
    size_t refused_blobs = 0;  ///< made elsewhere or altered: their plans are only hints
    size_t damaged_rows = 0;   ///< of the other tables
};

/// One connection to a store file. Rows are kept per machine key (CPU, caches, ISA, generator and
/// numerics versions), blobs per build of the generator besides. A file that is missing is made
/// (0600, its folder 0700). Not thread-safe; no handle may cross a fork. Errors of all functions:
/// out_of_budget when other processes hold the file for seconds (worth another try later), else
/// io_error.
class Store {
public:
    /// io_error: foreign owner, a folder that others may write, a symbolic link, unwritable,
    /// corrupt, made by a newer version; the message is one line for the user.
    static base::Result<std::unique_ptr<Store>> open(const std::string& path,
                                                     const std::string& machine_key);
    ~Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    /// Reads all rows of the machine key; drops damaged rows (of every machine) and refused blobs.
    /// About 5 us a plan.
    base::Result<StoreContents> load();
    /// Writes a plan (replacing the operation's row) and those of its blobs that are not stored
    /// yet. The blobs must have passed the static check: the keyed hash says so. One transaction.
    base::Result<void> save(const StoredPlan& plan, const std::vector<jit::Blob>& blobs);
    /// Changes the state of an operation's row if it still holds `schedule`.
    base::Result<void> set_state(const whet_op& op, const std::string& schedule, PlanState state);
    /// Quarantines a schedule for an operation and drops the operation's row if it holds that
    /// schedule.
    base::Result<void> quarantine(const QuarantinedPlan& plan, const std::string& schedule);
    base::Result<void> save_machine(const MachineRecord& record);

private:
    Store(sqlite3* database, std::string machine_key, std::string blob_key);
    base::Result<void> execute(const char* statements) const;
    template <typename Change>
    base::Result<void> transaction(const Change& change);
    base::Result<size_t> drop_damaged();
    base::Result<void> load_plans(StoreContents& contents) const;
    base::Result<void> load_blobs(StoreContents& contents);
    base::Result<void> seal_plan(const whet_op& op);
    std::string digest_of(const jit::Blob& blob) const;

    sqlite3* database_;
    std::string machine_key_;
    std::string blobs_key_;
    std::string blob_key_;  ///< 16 bytes, from the file `<path>.key`
};

/// The machine key of this host for an instruction set.
std::string machine_key(jit::Isa isa);

}  // namespace whet::runtime
