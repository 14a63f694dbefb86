// SPDX-License-Identifier: Apache-2.0
// Speed of single microkernels, operands hot: the vector panel in L1, the scalar operand in L1 or
// L2.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "jit/cpu/compiler.hpp"
#include "tests/jit/cpu/executable.hpp"

namespace whet::jit::cpu {
namespace {

constexpr int64_t kDepth = 256;  // a 32-lane panel of 32 KiB

std::vector<float> random_values(int64_t count) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> values(-1.0f, 1.0f);
    std::vector<float> result(static_cast<std::size_t>(count));
    for (float& value : result) value = values(random);
    return result;
}

void run_tile(benchmark::State& state, const MicrokernelSpec& spec, const Executable& microkernel) {
    const int64_t width = spec.vectors * lanes_of(spec.isa), tiles = state.range(0);
    const auto scalar = random_values(tiles * spec.rows * kDepth),
               vector = random_values(width * kDepth);
    std::vector<float> dst(static_cast<std::size_t>(tiles * spec.rows * width));
    TileArgs args = {.scalar = scalar.data(),
                     .vector = vector.data(),
                     .dst = dst.data(),
                     .taps = 1,
                     .k = kDepth,
                     .tiles = tiles,
                     .lanes = width,
                     .scalar_row = kDepth,
                     .scalar_k = spec.rows,
                     .scalar_tile = spec.rows * kDepth,
                     .vector_k = width,
                     .dst_row = width,
                     .dst_tile = spec.rows * width,
                     .start = kStartDst,
                     .alpha = 1.0f,
                     .beta = 1.0f};
    for (auto _ : state) {
        microkernel(&args);
        benchmark::ClobberMemory();
    }
    const double flops = 2.0 * static_cast<double>(tiles * spec.rows * width * kDepth);
    state.counters["flops"] =
        benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void run_softmax(benchmark::State& state, const Executable& microkernel) {
    const int64_t columns = state.range(0), rows = std::max<int64_t>(1, 16384 / columns);
    const auto src = random_values(rows * columns);
    std::vector<float> dst(src.size());
    SoftmaxArgs args = {src.data(), dst.data(), rows, columns, columns, columns};
    for (auto _ : state) {
        microkernel(&args);
        benchmark::ClobberMemory();
    }
    state.counters["elements"] = benchmark::Counter(static_cast<double>(rows * columns),
                                                    benchmark::Counter::kIsIterationInvariantRate);
}

void run_compile(benchmark::State& state, Compiler& compiler, const MicrokernelSpec& spec) {
    for (auto _ : state) benchmark::DoNotOptimize(compiler.compile(spec));
}

/// Keeps the code alive as long as the process: benchmarks run after main registered them.
void add(Compiler& compiler, const std::string& text) {
    const auto spec = MicrokernelSpec::parse(text);
    if (!spec || !host_runs(spec->isa)) return;
    const auto blob = compiler.compile(*spec);
    if (!blob) return;
    const auto microkernel = std::make_shared<Executable>(*blob);
    if (spec->kind == MicrokernelKind::softmax) {
        benchmark::RegisterBenchmark(
            text.c_str(), [=](benchmark::State& state) { run_softmax(state, *microkernel); })
            ->ArgName("columns")
            ->Arg(32)
            ->Arg(128)
            ->Arg(200)
            ->Arg(512)
            ->Arg(4096)
            ->Arg(20000);
        return;
    }
    benchmark::RegisterBenchmark(
        text.c_str(), [=](benchmark::State& state) { run_tile(state, *spec, *microkernel); })
        ->ArgName("tiles")
        ->Arg(1)
        ->Arg(8);
}

void add_all(Compiler& compiler) {
    const char* shapes[] = {"avx512.r14.v2", "avx512.r12.v2", "avx512.r8.v3", "avx512.r9.v3",
                            "avx512.r6.v4",  "avx512.r28.v1", "avx512.r1.v4", "avx2.r6.v2",
                            "avx2.r4.v3",    "avx2.r3.v4",    "avx2.r12.v1"};
    for (const std::string shape : shapes) {
        for (const std::string unroll : {"1", "2", "4", "8"}) {
            for (const std::string scalar : {"rows_strided", "packed"}) {
                add(compiler, "tile." + shape + ".u" + unroll + "." + scalar + ".packed.none");
            }
        }
        add(compiler, "tile." + shape + ".u4.rows_strided.packed.none.p8");
        add(compiler, "tile." + shape + ".u4.rows_strided.strided.none");
    }
    for (const char* text : {"softmax.avx512.r1", "softmax.avx2.r1"}) add(compiler, text);
    for (const char* text : {"tile.avx512.r14.v2.u4.rows_strided.packed.none",
                             "tile.avx2.r6.v2.u4.packed.packed.none"}) {
        const MicrokernelSpec spec = *MicrokernelSpec::parse(text);
        benchmark::RegisterBenchmark(
            (std::string("compile/") + text).c_str(),
            [&compiler, spec](benchmark::State& state) { run_compile(state, compiler, spec); })
            ->Unit(benchmark::kMillisecond);
    }
}

}  // namespace
}  // namespace whet::jit::cpu

int main(int count, char** arguments) {
    benchmark::Initialize(&count, arguments);
    const auto compiler = whet::jit::cpu::open_compiler(whet::jit::cpu::library_directory());
    if (!compiler) {
        std::fprintf(stderr, "%s\n", compiler.error().message.c_str());
        return 1;
    }
    whet::jit::cpu::add_all(**compiler);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
