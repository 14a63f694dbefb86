// SPDX-License-Identifier: Apache-2.0
// Tests of control groups: trees made by hand, read once and again while they change.
#include "base/cgroup.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace whet::base {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<std::pair<std::string, std::string>>;

class Folder {
public:
    Folder() {
        std::string pattern = testing::TempDir() + "whet_cgroup_XXXXXX";
        root_ = mkdtemp(pattern.data());
        fs::create_directories(root_ + "/cgroup");
    }
    ~Folder() { fs::remove_all(root_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    void write(const std::string& path, const std::string& text) const {
        const fs::path file = root_ + "/" + path;
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text << '\n';
    }
    SystemFolders folders() const { return {root_ + "/proc", root_ + "/cgroup"}; }

private:
    std::string root_;
};

int affinity() {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct LimitsCase {
    const char* name;
    const char* self;  ///< /proc/self/cgroup
    Files files;       ///< below the cgroup folder
    std::optional<double> quota;
    std::optional<int64_t> memory;
    int most_cores = 1 << 20;
};

class CgroupLimits : public testing::TestWithParam<LimitsCase> {};

TEST_P(CgroupLimits, AreTheTightestOnTheWayUp) {
    const LimitsCase& one = GetParam();
    const Folder folder;
    folder.write("proc/self/cgroup", one.self);
    for (const auto& [path, text] : one.files) folder.write("cgroup/" + path, text);
    const HostLimits limits = Cgroup(folder.folders()).limits();
    EXPECT_EQ(limits.cpu_quota, one.quota);
    EXPECT_EQ(limits.memory_bytes, one.memory);
    EXPECT_EQ(limits.cores, std::min(affinity(), one.most_cores));
}

const LimitsCase kLimits[] = {
    {"Version2", "0::/a/b",
     {{"a/cpu.max", "150000 100000"},
      {"a/memory.max", "1000000"},
      {"a/b/cpu.max", "max 100000"},
      {"a/b/memory.max", "2000000"},
      {"a/b/cpuset.cpus.effective", "5"}},
     1.5, 1000000, 1},
    {"Version2WithoutLimits", "0::/a", {{"a/cpu.max", "max 100000"}, {"a/memory.max", "max"}}, {}, {}},
    {"Version2TightestIsOwn", "0::/a/b",
     {{"a/cpu.max", "150000 100000"}, {"a/b/cpu.max", "25000 50000"}}, 0.5, {}},
    {"Version1", "5:cpu,cpuacct:/x\n4:memory:/x\n3:cpuset:/x\n1:name=systemd:/x",
     {{"cpu,cpuacct/x/cpu.cfs_quota_us", "50000"},
      {"cpu,cpuacct/x/cpu.cfs_period_us", "100000"},
      {"memory/memory.limit_in_bytes", "9223372036854771712"},
      {"memory/x/memory.limit_in_bytes", "4096000"},
      {"cpuset/x/cpuset.effective_cpus", "0"}},
     0.5, 4096000, 1},
    {"Version1WithoutLimits", "5:cpu:/x\n4:memory:/x",
     {{"cpu/x/cpu.cfs_quota_us", "-1"},
      {"cpu/x/cpu.cfs_period_us", "100000"},
      {"memory/x/memory.limit_in_bytes", "9223372036854771712"}},
     {}, {}},
    {"Hybrid", "4:memory:/x\n0::/y",
     {{"memory/x/memory.limit_in_bytes", "4096000"}, {"unified/y/cpu.max", "200000 100000"}},
     2.0, 4096000},
    {"OutsideOfTheMount", "0::/../outside/of/it", {{"cpu.max", "200000 100000"}}, 2.0, {}},
    {"TheMountIsTheGroup", "0::/", {{"cpu.max", "200000 100000"}}, 2.0, {}},
    {"GroupOfTheHostInAContainer", "4:memory:/docker/0123",
     {{"memory/memory.limit_in_bytes", "4096000"}}, {}, 4096000},
    {"NoFiles", "0::/a", {}, {}, {}},
    {"Nonsense", "nonsense\n::\n0:", {{"cpu.max", "fast\nfaster"}, {"memory.max", "-5"}}, {}, {}},
    {"ZeroPeriod", "0::/", {{"cpu.max", "1000 0"}}, {}, {}},
    {"Nothing", "", {{"cpu.max", "200000 100000"}}, {}, {}},
};
INSTANTIATE_TEST_SUITE_P(Trees, CgroupLimits, testing::ValuesIn(kLimits),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Cgroup, FollowsWhatChanges) {
    const Folder folder;
    folder.write("proc/self/cgroup", "0::/a");
    folder.write("cgroup/a/cpu.max", "max 100000");
    folder.write("cgroup/b/cpu.max", "10000 100000");
    Cgroup group(folder.folders());
    EXPECT_EQ(group.limits().cpu_quota, std::nullopt);
    folder.write("cgroup/a/cpu.max", "50000 100000");
    folder.write("cgroup/a/memory.max", "8000000");
    EXPECT_EQ(group.limits().cpu_quota, 0.5);
    EXPECT_EQ(group.limits().memory_bytes, 8000000);
    folder.write("proc/self/cgroup", "0::/b");  // moved
    EXPECT_EQ(group.limits().cpu_quota, 0.1);
    EXPECT_EQ(group.limits().memory_bytes, std::nullopt);
}

struct StrainCase {
    const char* name;
    const char* self;
    Files files;  ///< below the folder of both
    HostStrain strain;
};

class CgroupStrain : public testing::TestWithParam<StrainCase> {};

TEST_P(CgroupStrain, IsCounted) {
    const StrainCase& one = GetParam();
    const Folder folder;
    folder.write("proc/self/cgroup", one.self);
    for (const auto& [path, text] : one.files) folder.write(path, text);
    Cgroup group(folder.folders());
    group.limits();
    const HostStrain strain = group.strain();
    EXPECT_EQ(strain.throttled_periods, one.strain.throttled_periods);
    EXPECT_NEAR(strain.cpu_stalled_seconds, one.strain.cpu_stalled_seconds, 1e-9);
    EXPECT_NEAR(strain.memory_stalled_seconds, one.strain.memory_stalled_seconds, 1e-9);
}

constexpr const char* kPressure =
    "some avg10=61.16 avg60=26.28 avg300=8.67 total=12000000\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=250000";

const StrainCase kStrains[] = {
    {"Version2", "0::/a/b",
     {{"cgroup/a/b/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 77"},
      {"cgroup/a/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 4"},
      {"cgroup/a/b/cpu.pressure", kPressure},
      {"cgroup/a/cpu.pressure", kPressure},
      {"cgroup/a/b/memory.pressure", kPressure}},
     {7, 0.25, 12}},
    {"Version1", "2:cpu,cpuacct:/x",
     {{"cgroup/cpu,cpuacct/x/cpu.stat", "nr_periods 9\nnr_throttled 5\nthrottled_time 1"},
      {"proc/pressure/memory", kPressure},
      {"proc/pressure/cpu", kPressure}},
     {5, 0, 12}},
    {"OldKernel", "2:cpu:/x", {}, {}},
    {"Nonsense", "0::/",
     {{"cgroup/cpu.stat", "nr_throttled\nnr_throttled_ 5\nnr_throttled -5"},
      {"cgroup/cpu.pressure", "full total=\nsome"},
      {"cgroup/memory.pressure", ""}},
     {}},
};
INSTANTIATE_TEST_SUITE_P(Trees, CgroupStrain, testing::ValuesIn(kStrains),
                         [](const auto& info) { return std::string(info.param.name); });

/// "cpu" and "cpuacct" are links to "cpu,cpuacct" on many systems.
TEST(Cgroup, OneFolderUnderTwoNamesIsCountedOnce) {
    const Folder folder;
    folder.write("proc/self/cgroup", "2:cpu,cpuacct:/x");
    folder.write("cgroup/cpu,cpuacct/x/cpu.stat", "nr_throttled 5");
    fs::create_directory_symlink("cpu,cpuacct", folder.folders().cgroup + "/cpu");
    Cgroup group(folder.folders());
    group.limits();
    EXPECT_EQ(group.strain().throttled_periods, 5u);
}

TEST(Cgroup, IdleTimeIsThatOfTheOwnCores) {
    const Folder folder;
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int own = 0;
    while (!CPU_ISSET(own, &set)) ++own;
    std::string text = "cpu  1 1 1 999999 1\n";
    for (int i = 0; i < 4096; ++i) {
        const bool mine = i < CPU_SETSIZE && CPU_ISSET(i, &set);
        text += "cpu" + std::to_string(i) + " 7 7 7 " + (i == own ? "300" : mine ? "0" : "100000") +
                " 0 0 0\n";
    }
    folder.write("proc/stat", text + "intr 1 2 3");
    EXPECT_NEAR(idle_seconds(folder.folders().proc),
                300.0 / static_cast<double>(sysconf(_SC_CLK_TCK)), 1e-9);
    EXPECT_EQ(idle_seconds("/nowhere"), 0);
}

TEST(Cgroup, TheRealOneIsPlausible) {
    Cgroup group;
    const HostLimits limits = group.limits();
    EXPECT_GE(limits.cores, 1);
    EXPECT_LE(limits.cores, affinity());
    const HostStrain first = group.strain(), second = group.strain();
    EXPECT_GE(second.throttled_periods, first.throttled_periods);
    EXPECT_GE(second.memory_stalled_seconds, first.memory_stalled_seconds);
    EXPECT_GT(idle_seconds(), 0);
}

}  // namespace
}  // namespace whet::base
