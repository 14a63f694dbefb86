// SPDX-License-Identifier: Apache-2.0
// What the scheduler and the control groups allow this process, and how it fares under that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whet::base {

/// Where the kernel's files are; a test puts its own there.
struct SystemFolders {
    std::string proc = "/proc";
    std::string cgroup = "/sys/fs/cgroup";
};

/// What the scheduler and the cgroup allow this process.
struct HostLimits {
    int cores = 1;  ///< in the affinity mask of the calling thread and in the cpuset
    std::optional<double> cpu_quota;  ///< cores' worth of time of the cgroup; empty: no limit
    std::optional<std::int64_t> memory_bytes;  ///< of the cgroup; empty: no limit
};

/// Counters that only grow, of this process's groups; 0 where the kernel counts nothing.
struct HostStrain {
    std::uint64_t throttled_periods = 0;  ///< in which a quota was used up (nr_throttled)
    double cpu_stalled_seconds = 0;  ///< all threads of the group that wanted a core waited for one
    double memory_stalled_seconds = 0;  ///< some thread waited for memory, here or on the machine
};

/// The control groups of this process, in a v1, v2 or hybrid tree. The tightest limit on the way
/// from its group to the root counts. One thread.
class Cgroup {
public:
    explicit Cgroup(SystemFolders folders = {});

    /// Reads the limits anew, and which groups the process is in: about 0.2 ms.
    HostLimits limits();
    /// Of the groups that limits() found last: a few files, about 20 us.
    HostStrain strain() const;

private:
    void find_groups();

    const SystemFolders folders_;
    std::vector<std::string> groups_;  ///< folders, from the process's group up, per controller
    std::vector<std::string> stat_files_, cpu_pressure_files_, memory_pressure_files_;
};

/// Idle and waiting time in seconds, summed over the cores of the calling thread's affinity mask,
/// as PROC/stat counts it; 0 when it cannot be read.
double idle_seconds(const std::string& proc = "/proc");

}  // namespace whet::base
