// SPDX-License-Identifier: Apache-2.0
// The machine: CPUID, sysfs and cgroup files.
#include "base/host.hpp"

#include <cpuid.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <vector>

namespace whet::base {
namespace {

struct Registers {
    unsigned int a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned int leaf, unsigned int subleaf = 0) {
    Registers registers;
    if (!__get_cpuid_count(leaf, subleaf, &registers.a, &registers.b, &registers.c, &registers.d))
        return {};
    return registers;
}

std::uint64_t read_xcr0() {
    std::uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<std::uint64_t>(high) << 32) | low;
}

constexpr bool bit(unsigned int word, int index) { return (word >> index) & 1u; }

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    if (!file) return {};
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

std::optional<std::int64_t> to_integer(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return value;
}

/// Counts the processors in a list such as "0-3,8".
int count_list(const std::string& list) {
    int count = 0;
    std::stringstream stream(list);
    for (std::string part; std::getline(stream, part, ',');) {
        const size_t dash = part.find('-');
        const auto first = to_integer(part);
        const auto last =
            dash == std::string::npos ? first : to_integer(std::string_view(part).substr(dash + 1));
        if (first && last && *last >= *first) count += static_cast<int>(*last - *first + 1);
    }
    return std::max(count, 1);
}

void keep_cache(HostCaches& caches, int level, bool holds_data, std::int64_t bytes, int cores) {
    if (!holds_data || bytes <= 0) return;
    if (level == 1) caches.l1_data_bytes = bytes;
    if (level == 2) caches.l2_bytes = bytes;
    caches.last_level_bytes = bytes;  // levels come in ascending order
    caches.last_level_cores = cores;
}

/// Intel's leaf 4 and AMD's 0x8000001d describe caches in the same format.
HostCaches caches_from_cpuid() {
    HostCaches caches;
    for (const unsigned int leaf : {4u, 0x8000001du}) {
        for (unsigned int index = 0; index < 8; ++index) {
            const Registers r = cpuid(leaf, index);
            const unsigned int type = r.a & 31;  // 0: no more; 1: data; 2: instructions; 3: both
            if (type == 0) break;
            const std::int64_t bytes = static_cast<std::int64_t>((r.b >> 22) + 1) *
                                       (((r.b >> 12) & 1023) + 1) * ((r.b & 4095) + 1) *
                                       (static_cast<std::int64_t>(r.c) + 1);
            keep_cache(caches, static_cast<int>((r.a >> 5) & 7), type != 2, bytes,
                       static_cast<int>(((r.a >> 14) & 4095) + 1));
        }
        if (caches.l1_data_bytes > 0) break;
    }
    return caches;
}

HostCaches read_caches() {
    HostCaches caches;
    for (int index = 0; index < 8; ++index) {
        const std::string folder =
            "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
        const std::string size = read_file(folder + "size");
        if (size.empty()) break;
        const auto number = to_integer(size);
        const auto level = to_integer(read_file(folder + "level"));
        if (!number || !level) continue;
        const std::int64_t unit = size.back() == 'K' ? 1 << 10 : size.back() == 'M' ? 1 << 20 : 1;
        keep_cache(caches, static_cast<int>(*level), read_file(folder + "type") != "Instruction",
                   *number * unit, count_list(read_file(folder + "shared_cpu_list")));
    }
    return caches.l1_data_bytes > 0 ? caches : caches_from_cpuid();
}

std::string read_brand() {
    if (cpuid(0x80000000).a < 0x80000004) return "unknown";
    char brand[49] = {};
    for (unsigned int i = 0; i < 3; ++i) {
        const Registers r = cpuid(0x80000002 + i);
        std::memcpy(brand + 16 * i, &r, 16);
    }
    std::string_view text = brand;
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return std::string(text);
}

int allowed_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    // More than 1024 processors do not fit this set and fail the call: then count what is
    // configured.
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
    return count_list(read_file("/sys/devices/system/cpu/online"));
}

template <typename T>
void tighten(std::optional<T>& limit, T value) {
    if (!limit || value < *limit) limit = value;
}

/// Reads both limits of one v1 or v2 group; files that are missing say nothing.
void read_group(const std::string& folder, HostLimits& limits) {
    constexpr std::int64_t kUnlimitedMemory = 1ll
                                              << 60;  // v1 writes a page-rounded 2^63 for "none"
    const std::string cpu_max = read_file(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    const size_t space = cpu_max.find(' ');
    auto quota = to_integer(cpu_max);
    auto period = space == std::string::npos
                      ? std::nullopt
                      : to_integer(std::string_view(cpu_max).substr(space + 1));
    if (cpu_max.empty()) {
        quota = to_integer(read_file(folder + "/cpu.cfs_quota_us"));  // -1: none
        period = to_integer(read_file(folder + "/cpu.cfs_period_us"));
    }
    if (quota && period && *quota > 0 && *period > 0) {
        tighten(limits.cpu_quota, static_cast<double>(*quota) / static_cast<double>(*period));
    }
    for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
        const auto bytes = to_integer(read_file(folder + name));
        if (bytes && *bytes > 0 && *bytes < kUnlimitedMemory) tighten(limits.memory_bytes, *bytes);
    }
}

/// Reads a group and all groups above it, up to the mount.
void read_group_chain(const std::string& mount, std::string path, HostLimits& limits) {
    while (!path.empty() && path != "/") {
        read_group(mount + path, limits);
        path.resize(std::min(path.rfind('/'), path.size()));
    }
    read_group(mount, limits);
}

}  // namespace

HostFeatures host_features() noexcept {
    constexpr std::uint64_t kYmmState = 0x6, kZmmState = 0xe0, kTileState = 0x60000;
    HostFeatures features;
    const Registers one = cpuid(1);
    if (!bit(one.c, 27)) return features;  // OSXSAVE: without it XCR0 cannot be read
    const std::uint64_t state = read_xcr0();
    const Registers seven = cpuid(7);
    const Registers seven_one = cpuid(7, 1);
    const bool ymm = (state & kYmmState) == kYmmState;
    features.avx2_fma =
        ymm && bit(one.c, 28) && bit(one.c, 12) && bit(seven.b, 5) && bit(seven.b, 8);
    const bool zmm = (state & kZmmState) == kZmmState;
    features.avx512 = features.avx2_fma && zmm && bit(seven.b, 16) && bit(seven.b, 17) &&
                      bit(seven.b, 30) && bit(seven.b, 31);
    features.avx512_bf16 = features.avx512 && seven.a >= 1 && bit(seven_one.a, 5);
    features.amx_bf16 = features.avx512 && (state & kTileState) == kTileState && bit(seven.d, 22) &&
                        bit(seven.d, 24);
    return features;
}

HostLimits cgroup_limits(const std::string& proc_cgroup, const std::string& root) {
    HostLimits limits;
    std::stringstream lines(proc_cgroup);
    for (std::string line; std::getline(lines, line);) {
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::string path = line.substr(second + 1);
        if (controllers.empty()) {
            read_group_chain(root, path,
                             limits);  // v2; in a hybrid set-up its files just have no limits
            continue;
        }
        std::stringstream names(controllers);
        for (std::string name; std::getline(names, name, ',');) {
            if (name != "cpu" && name != "memory") continue;
            read_group_chain(root + "/" + name, path, limits);
            if (controllers != name) read_group_chain(root + "/" + controllers, path, limits);
        }
    }
    return limits;
}

Host describe_host() {
    // What the machine is does not change; what this process may use of it does.
    static const Host* const kept = [] {  // never destroyed: a forge may ask while its host exits
        auto* const machine = new Host;
        machine->features = host_features();
        machine->caches = read_caches();
        machine->cpu = read_brand();
        return machine;
    }();
    Host host = *kept;
    host.limits = cgroup_limits(read_file("/proc/self/cgroup"), "/sys/fs/cgroup");
    host.limits.cores = allowed_cores();
    return host;
}

}  // namespace whet::base
