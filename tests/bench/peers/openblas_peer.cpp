// SPDX-License-Identifier: Apache-2.0
// Peer "openblas": Debian's OpenBLAS, opened at run time.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "tools/whet/bench/peer.h"

struct bench_runnable {
    bench_shape shape{};
    const float* a = nullptr;
    const float* bias = nullptr;
    std::vector<const float*> b;
};

namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;
using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                       float, float*, int);

Sgemm sgemm = nullptr;
char version[128] = "openblas";

int start(int threads, char* error, size_t error_bytes) {
    if (sgemm) return 0;
    // Some machines carry these for other programs' sake; the peer must choose its own kernels.
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        std::snprintf(error, error_bytes, "%s", dlerror());
        return 1;
    }
    sgemm = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    auto* set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
    auto* config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
    if (!sgemm || !set_threads) {
        std::snprintf(error, error_bytes,
                      "libopenblas.so.0 has no cblas_sgemm or openblas_set_num_threads");
        return 1;
    }
    set_threads(threads);
    if (config) std::snprintf(version, sizeof version, "%s", config());
    return 0;
}

const char* version_text() { return version; }

void* allocate(size_t bytes) {
    void* pointer = nullptr;
    return posix_memalign(&pointer, 64, bytes) == 0 ? pointer : nullptr;
}
void release(void* pointer, size_t) { std::free(pointer); }

size_t dst_count(const bench_shape& s) {
    return static_cast<size_t>((s.op == BENCH_BMM ? s.batch : 1) * s.m * s.n);
}

void compute(const bench_shape& s, float* dst, const float* a, const float* b, const float* bias) {
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    const bool transposed = s.op == BENCH_LINEAR;
    for (int row = 0; bias && row < m; ++row)
        std::memcpy(dst + int64_t{row} * n, bias, sizeof(float) * s.n);
    for (int64_t i = 0; i < (s.op == BENCH_BMM ? s.batch : 1); ++i)
        sgemm(kRowMajor, kNoTrans, transposed ? kTrans : kNoTrans, m, n, k, 1.0f, a + i * s.m * s.k,
              k, b + i * s.k * s.n, transposed ? k : n, bias ? 1.0f : 0.0f, dst + i * s.m * s.n, n);
}

bench_runnable* make(const char*, const bench_shape* shape, const float* a, const float* const* b,
                     int64_t copies, const float* bias, char* error, size_t error_bytes) {
    if (shape->op != BENCH_LINEAR && shape->op != BENCH_GEMM && shape->op != BENCH_BMM) {
        std::snprintf(error, error_bytes, "openblas computes linear, gemm and bmm only");
        return nullptr;
    }
    auto runnable = std::make_unique<bench_runnable>();
    runnable->shape = *shape;
    runnable->a = a;
    runnable->bias = bias;
    runnable->b.assign(b, b + copies);
    return runnable.release();
}

void run(bench_runnable* runnable, int64_t copy) {
    const size_t bytes = dst_count(runnable->shape) * sizeof(float);
    auto* dst = static_cast<float*>(allocate(bytes));
    compute(runnable->shape, dst, runnable->a, runnable->b[static_cast<size_t>(copy)],
            runnable->bias);
    release(dst, bytes);
}

void run_at(bench_runnable* runnable, int64_t copy, float* dst) {
    compute(runnable->shape, dst, runnable->a, runnable->b[static_cast<size_t>(copy)],
            runnable->bias);
}

void run_into(bench_runnable* runnable, float* dst, const float* a, const float* b,
              const float* bias) {
    compute(runnable->shape, dst, a, b, bias);
}

void move_a(bench_runnable* runnable, const float* a) { runnable->a = a; }

void destroy(bench_runnable* runnable) { delete runnable; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const bench_peer* bench_peer_module(void) {
    static const bench_peer peer{
        BENCH_PEER_VERSION, "openblas", start,  version_text, allocate, release, make, run, run_at,
        run_into,           run_into,   move_a, destroy};
    return &peer;
}
