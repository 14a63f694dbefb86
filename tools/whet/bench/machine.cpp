// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/machine.hpp"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

namespace whet::bench {
namespace {

// The best round counts: a peak is a limit, noise only lowers it. Rounds are shorter than a time
// slice.
constexpr int kPeakRounds = 200;
constexpr int kStreamRounds = 128;
constexpr int64_t kFmaSteps = 200'000;            // about a millisecond
constexpr size_t kStreamBytes = size_t{1} << 30;  // past the last-level caches of today's servers
constexpr size_t kChunkBytes = size_t{32}
                               << 20;  // read in one round; it comes again after kStreamBytes
constexpr size_t kHugePage = size_t{2} << 20;
constexpr int kChains = 12;  // fused multiply-adds in flight: 2 units x 4 cycles, and some

/// Makes the compiler believe that the value is used.
void sink_value(float value) { asm volatile("" : : "x"(value)); }

// Twelve independent chains on zeros, in registers whatever the compiler thinks. AT&T order:
// source, source, sum.
#define WHET_BENCH_TWELVE(line)                                                               \
    line("0") line("1") line("2") line("3") line("4") line("5") line("6") line("7") line("8") \
        line("9") line("10") line("11")
#define WHET_BENCH_CLEAR(index) "vxorps %%xmm" index ", %%xmm" index ", %%xmm" index "\n\t"
#define WHET_BENCH_FMA_ZMM(index) "vfmadd231ps %%zmm12, %%zmm12, %%zmm" index "\n\t"
#define WHET_BENCH_FMA_YMM(index) "vfmadd231ps %%ymm12, %%ymm12, %%ymm" index "\n\t"
#define WHET_BENCH_FMA_LOOP(fma)                                                                 \
    asm volatile(WHET_BENCH_TWELVE(WHET_BENCH_CLEAR) WHET_BENCH_CLEAR(                           \
                     "12") "1:\n\t" WHET_BENCH_TWELVE(fma) "dec %0\n\tjnz 1b\n\tvzeroupper"      \
                 : "+r"(steps)                                                                   \
                 :                                                                               \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", \
                   "xmm9", "xmm10", "xmm11", "xmm12")

double fma_avx512(int64_t steps) {
    const double flops = 2.0 * 16 * kChains * static_cast<double>(steps);
    WHET_BENCH_FMA_LOOP(WHET_BENCH_FMA_ZMM);
    return flops;
}

double fma_avx2(int64_t steps) {
    const double flops = 2.0 * 8 * kChains * static_cast<double>(steps);
    WHET_BENCH_FMA_LOOP(WHET_BENCH_FMA_YMM);
    return flops;
}

#define WHET_BENCH_MUL_ADD(index) "mulps %%xmm13, %%xmm12\n\taddps %%xmm13, %%xmm" index "\n\t"

double multiply_add_portable(int64_t steps) {
    const double flops = 2.0 * 4 * kChains * static_cast<double>(steps);
    // xmm12 is multiplied in place by xmm13: one chain of products would limit it, so each starts
    // from a zero idiom.
#define WHET_BENCH_STEP(index) "xorps %%xmm12, %%xmm12\n\t" WHET_BENCH_MUL_ADD(index)
#define WHET_BENCH_ZERO(index) "xorps %%xmm" index ", %%xmm" index "\n\t"
    asm volatile(WHET_BENCH_TWELVE(WHET_BENCH_ZERO) WHET_BENCH_ZERO(
                     "13") "1:\n\t" WHET_BENCH_TWELVE(WHET_BENCH_STEP) "dec %0\n\tjnz 1b"
                 : "+r"(steps)
                 :
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                   "xmm9", "xmm10", "xmm11", "xmm12", "xmm13");
    return flops;
}

#undef WHET_BENCH_STEP
#undef WHET_BENCH_ZERO

__attribute__((target("avx2"))) double read_avx2(const float* data, size_t count) {
    __m256 sum[8];
    for (auto& part : sum) part = _mm256_setzero_ps();
    for (size_t i = 0; i + 64 <= count; i += 64)
#pragma GCC unroll 8
        for (size_t part = 0; part < 8; ++part)
            sum[part] = _mm256_add_ps(sum[part], _mm256_loadu_ps(data + i + 8 * part));
    for (auto& part : sum) sink_value(_mm256_cvtss_f32(part));
    return static_cast<double>(count) * sizeof(float);
}

double read_portable(const float* data, size_t count) {
    __m128 sum[8];
    for (auto& part : sum) part = _mm_setzero_ps();
    for (size_t i = 0; i + 32 <= count; i += 32)
#pragma GCC unroll 8
        for (size_t part = 0; part < 8; ++part)
            sum[part] = _mm_add_ps(sum[part], _mm_loadu_ps(data + i + 4 * part));
    for (auto& part : sum) sink_value(_mm_cvtss_f32(part));
    return static_cast<double>(count) * sizeof(float);
}

/// Runs work(thread) on every thread at once; returns units of work per nanosecond of the slowest.
template <typename Work>
double best_rate(int threads, int rounds, const Work& work) {
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
        std::vector<double> units(static_cast<size_t>(threads));
        const int64_t begin = now_ns();
        std::vector<std::thread> others;
        for (int thread = 1; thread < threads; ++thread)
            others.emplace_back([&, thread] { units[static_cast<size_t>(thread)] = work(thread); });
        units[0] = work(0);
        for (std::thread& other : others) other.join();
        double total = 0;
        for (const double one : units) total += one;
        best = std::max(best, total / static_cast<double>(now_ns() - begin));
    }
    return best;
}

std::string best_isa() {
    __builtin_cpu_init();
    const char* forced = std::getenv("WHET_ISA");
    const std::string_view limit = forced ? forced : "auto";
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 =
        avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    if (limit == "portable" || !avx2) return "portable";
    return avx512 && limit != "avx2" ? "avx512" : "avx2";
}

double last_level_cache() {
    double largest = 0;
    for (int index = 0; index < 8; ++index) {
        std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) +
                           "/size");
        double size = 0;
        char unit = 'K';
        if (!(file >> size)) continue;
        file >> unit;
        largest = std::max(largest, size * (unit == 'M' ? 1024.0 * 1024 : 1024.0));
    }
    return largest > 0 ? largest : 32.0 * 1024 * 1024;
}

}  // namespace

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

Machine describe_machine() {
    Machine machine;
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("model name")) {
            machine.cpu = line.substr(line.find(':') + 2);
            break;
        }
    machine.isa = best_isa();
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) machine.cores = CPU_COUNT(&set);
    machine.last_level_bytes = last_level_cache();
    return machine;
}

void measure_machine(Machine& machine, int threads) {
    machine.peak_gflops = best_rate(threads, kPeakRounds, [&](int) {
        if (machine.isa == "avx512") return fma_avx512(kFmaSteps);
        return machine.isa == "avx2" ? fma_avx2(kFmaSteps) : multiply_add_portable(kFmaSteps);
    });
    const size_t count = kStreamBytes / sizeof(float);
    auto* data = static_cast<float*>(std::aligned_alloc(kHugePage, kStreamBytes));
    if (!data) return;
    madvise(data, kStreamBytes, MADV_HUGEPAGE);  // the limit is the memory's, not the page walks'
    for (size_t i = 0; i < count; i += 1024)
        data[i] = 1.0f;  // its own page each, not the shared zero page
    const size_t chunk = kChunkBytes / sizeof(float);
    std::vector<size_t> next(static_cast<size_t>(threads));
    for (size_t thread = 0; thread < next.size(); ++thread)
        next[thread] = count / next.size() * thread / chunk;
    machine.stream_gbs = best_rate(threads, kStreamRounds, [&](int thread) {
        const float* begin = data + next[static_cast<size_t>(thread)]++ % (count / chunk) * chunk;
        return machine.isa == "portable" ? read_portable(begin, chunk) : read_avx2(begin, chunk);
    });
    std::free(data);
}

nlohmann::json to_json(const Machine& machine) {
    return {{"cpu", machine.cpu},
            {"isa", machine.isa},
            {"cores", machine.cores},
            {"peak_gflops", machine.peak_gflops},
            {"stream_gbs", machine.stream_gbs}};
}

}  // namespace whet::bench
