// SPDX-License-Identifier: Apache-2.0
// The machine: CPUID and sysfs.
#include "base/host.hpp"

#include <cpuid.h>

#include <cstring>
#include <string_view>

#include "base/text_file.hpp"

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
        const std::string size = read_text(folder + "size");
        if (size.empty()) break;
        const auto number = to_integer(size);
        const auto level = to_integer(read_text(folder + "level"));
        if (!number || !level) continue;
        const std::int64_t unit = size.back() == 'K' ? 1 << 10 : size.back() == 'M' ? 1 << 20 : 1;
        keep_cache(caches, static_cast<int>(*level), read_text(folder + "type") != "Instruction",
                   *number * unit, count_list(read_text(folder + "shared_cpu_list")));
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
    host.limits = Cgroup().limits();
    return host;
}

}  // namespace whet::base
