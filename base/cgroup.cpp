// SPDX-License-Identifier: Apache-2.0
// Files of control groups, version 1 and 2, pressure and idle time.
#include "base/cgroup.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "base/text_file.hpp"

namespace whet::base {
namespace {

constexpr const char* kControllers[] = {"cpu", "cpuset", "memory"};  // of version 1

template <typename T>
void tighten(std::optional<T>& limit, T value) {
    if (!limit || value < *limit) limit = value;
}

/// The affinity mask of the calling thread, however many processors the machine has.
class Affinity {
public:
    Affinity() {
        for (int processors = 1024; processors <= kMostProcessors; processors *= 2) {
            bytes_ = CPU_ALLOC_SIZE(processors);
            set_ = CPU_ALLOC(processors);
            CPU_ZERO_S(bytes_, set_);
            if (sched_getaffinity(0, bytes_, set_) == 0) return;
            CPU_FREE(set_);
            set_ = nullptr;
        }
    }
    ~Affinity() {
        if (set_) CPU_FREE(set_);
    }
    Affinity(const Affinity&) = delete;
    Affinity& operator=(const Affinity&) = delete;

    int count() const { return set_ ? std::max(CPU_COUNT_S(bytes_, set_), 1) : 1; }
    bool holds(int processor) const {
        return !set_ || CPU_ISSET_S(static_cast<size_t>(processor), bytes_, set_);
    }

private:
    static constexpr int kMostProcessors = 1 << 16;
    size_t bytes_ = 0;
    cpu_set_t* set_ = nullptr;
};

/// Adds a group and all groups above it, up to the mount.
void add_chain(const std::string& mount, std::string path, std::vector<std::string>& groups) {
    // A group outside of what a container sees: the mount itself is then the nearest.
    if (path.find("/..") != std::string::npos) path.clear();
    while (!path.empty() && path != "/") {
        groups.push_back(mount + path);
        path.resize(std::min(path.rfind('/'), path.size()));
    }
    groups.push_back(mount);
}

/// Cores' worth of time: "max 100000" or "150000 100000" (v2), -1 for none (v1).
std::optional<double> quota_of(const std::string& folder) {
    const std::string cpu_max = read_text(folder + "/cpu.max");
    const size_t space = cpu_max.find(' ');
    auto quota = to_integer(cpu_max);
    auto period = space == std::string::npos
                      ? std::nullopt
                      : to_integer(std::string_view(cpu_max).substr(space + 1));
    if (cpu_max.empty()) {
        quota = to_integer(read_text(folder + "/cpu.cfs_quota_us"));
        period = to_integer(read_text(folder + "/cpu.cfs_period_us"));
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return static_cast<double>(*quota) / static_cast<double>(*period);
}

/// Reads the limits of one v1 or v2 group; files that are missing say nothing.
void read_group(const std::string& folder, HostLimits& limits) {
    constexpr std::int64_t kUnlimited = 1ll << 60;  // v1 writes a page-rounded 2^63 for "none"
    if (const auto quota = quota_of(folder)) tighten(limits.cpu_quota, *quota);
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
        const auto bytes = to_integer(read_text(folder + name));
        if (bytes && *bytes > 0 && *bytes < kUnlimited) tighten(limits.memory_bytes, *bytes);
    }
    for (const char* name :
         {"/cpuset.cpus.effective", "/cpuset.effective_cpus", "/cpuset.cpus"}) {
        const std::string list = read_text(folder + name);
        if (!list.empty()) limits.cores = std::min(limits.cores, count_list(list));
    }
}

/// The number after `key` in "key number" lines; 0 where there is none.
std::uint64_t field(const std::string& text, std::string_view key) {
    std::stringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.size() <= key.size() || !line.starts_with(key) || line[key.size()] != ' ') continue;
        const auto number = to_integer(std::string_view(line).substr(key.size() + 1));
        return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
    }
    return 0;
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=12345": the total, given in microseconds.
double pressure_seconds(const std::string& text, std::string_view who) {
    constexpr std::string_view kTotal = "total=";
    std::stringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t at = line.find(kTotal);
        if (!line.starts_with(who) || at == std::string::npos) continue;
        const auto total = to_integer(std::string_view(line).substr(at + kTotal.size()));
        return total ? static_cast<double>(*total) * 1e-6 : 0;
    }
    return 0;
}

}  // namespace

Cgroup::Cgroup(SystemFolders folders) : folders_(std::move(folders)) {}

void Cgroup::find_groups() {
    groups_.clear();
    std::stringstream lines(read_text(folders_.proc + "/self/cgroup"));
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {  // version 2, alone or beside version 1
            add_chain(folders_.cgroup, path, groups_);
            add_chain(folders_.cgroup + "/unified", path, groups_);
            continue;
        }
        std::stringstream names(controllers);
        for (std::string name; std::getline(names, name, ',');) {
            if (std::find(std::begin(kControllers), std::end(kControllers), name) ==
                std::end(kControllers))
                continue;
            add_chain(folders_.cgroup + "/" + name, path, groups_);
            if (controllers != name) add_chain(folders_.cgroup + "/" + controllers, path, groups_);
        }
    }
    // "cpu" and "cpu,cpuacct" are usually one folder under two names: what is counted is counted
    // once.
    std::vector<std::string> seen;
    std::erase_if(groups_, [&](const std::string& group) {
        char* const real = ::realpath(group.c_str(), nullptr);
        const std::string path = real ? real : "";
        std::free(real);
        if (path.empty() || std::find(seen.begin(), seen.end(), path) != seen.end()) return true;
        seen.push_back(path);
        return false;
    });
}

HostLimits Cgroup::limits() {
    find_groups();
    HostLimits limits;
    limits.cores = Affinity().count();
    stat_files_.clear();
    cpu_pressure_files_.clear();
    memory_pressure_files_.clear();
    const auto keep = [](const std::string& file, std::vector<std::string>& files) {
        if (::access(file.c_str(), R_OK) == 0) files.push_back(file);
    };
    for (const std::string& group : groups_) {
        read_group(group, limits);
        keep(group + "/cpu.stat", stat_files_);
        // The nearest group is enough: who stalls there stalls.
        if (cpu_pressure_files_.empty()) keep(group + "/cpu.pressure", cpu_pressure_files_);
        if (memory_pressure_files_.empty())
            keep(group + "/memory.pressure", memory_pressure_files_);
    }
    keep(folders_.proc + "/pressure/memory", memory_pressure_files_);
    return limits;
}

HostStrain Cgroup::strain() const {
    HostStrain strain;
    for (const std::string& file : stat_files_)
        strain.throttled_periods += field(read_text(file), "nr_throttled");
    // "full": tuning's own threads wait by intention, and would count under "some".
    for (const std::string& file : cpu_pressure_files_)
        strain.cpu_stalled_seconds += pressure_seconds(read_text(file), "full");
    for (const std::string& file : memory_pressure_files_)
        strain.memory_stalled_seconds += pressure_seconds(read_text(file), "some");
    return strain;
}

double idle_seconds(const std::string& proc) {
    const Affinity affinity;
    double ticks = 0;
    std::stringstream lines(read_text(proc + "/stat"));
    for (std::string line; std::getline(lines, line) && line.starts_with("cpu");) {
        int processor = 0;
        unsigned long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0;
        if (std::sscanf(line.c_str(), "cpu%d %llu %llu %llu %llu %llu", &processor, &user, &nice,
                        &system, &idle, &waiting) == 6 &&
            affinity.holds(processor))
            ticks += static_cast<double>(idle + waiting);
    }
    return ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace whet::base
