/* SPDX-License-Identifier: Apache-2.0
 * The C interface of a peer module: a shared object that runs a suite's cases with somebody else's
 * library.
 *
 * A module exports `bench_peer_module`. All pointers to operands stay valid until `destroy`. `run`
 * is called from one thread at a time per runnable, `run_at` too; `run_into` may be called from
 * another thread at the same time.
 */
#ifndef WHET_BENCH_PEER_H
#define WHET_BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_PEER_VERSION 2

typedef enum bench_op {
    BENCH_LINEAR = 0,     /* y[m, n] = x[m, k] * W[n, k]^T + bias[n] */
    BENCH_GEMM,           /* C[m, n] = A[m, k] * B[k, n] */
    BENCH_BMM,            /* batch of gemm */
    BENCH_CONV,           /* 1 to 3 spatial axes, W[out, in / groups, kernel...] */
    BENCH_CONV_TRANSPOSE, /* W[in, out / groups, kernel...] */
    BENCH_SOFTMAX,        /* over the last axis of [rows, columns] */
    BENCH_NORM            /* y[batch] = sqrt(sum of squares of x[batch, m, n]) */
} bench_op;

/* The extents of a case; what its operator does not use is 0. */
typedef struct bench_shape {
    bench_op op;
    int64_t batch, m, k, n, rows, columns;
    int64_t in_channels, out_channels, groups;
    int32_t spatial_rank;
    int64_t spatial[3], kernel[3]; /* spatial: extents of the source */
    int32_t stride, padding, dilation;
} bench_shape;

typedef struct bench_runnable bench_runnable;

typedef struct bench_peer {
    int version;
    /* Names of the peers that this module holds, separated by commas, e.g. "torch,mkl-packed". */
    const char* names;
    /* Prepares the library for `threads` threads. 0: done; else `error` holds one sentence. */
    int (*start)(int threads, char* error, size_t error_bytes);
    /* Which library this is, e.g. "torch 2.15.0+cu132". */
    const char* (*version_text)(void);
    /* The allocator of destinations, the same for every side. */
    void* (*allocate)(size_t bytes);
    void (*release)(void* pointer, size_t bytes);
    /* Makes a runnable of `name` with `copies` copies of the weights (operand b); a: the warm
     * operand; b: an array of pointers; bias may be null. Null: not possible, `error` holds one
     * sentence. Packing of weights happens here. */
    bench_runnable* (*make)(const char* name, const bench_shape* shape, const float* a,
                            const float* const* b, int64_t copies, const float* bias, char* error,
                            size_t error_bytes);
    /* Computes with weights copy `copy` into a destination that it allocates and releases. */
    void (*run)(bench_runnable* runnable, int64_t copy);
    /* The same into dst. Where the library insists on memory of its own for the answer, it is left
     * there, as a program would: the time of a call, not its answer, is what this is for. */
    void (*run_at)(bench_runnable* runnable, int64_t copy, float* dst);
    /* Computes on other operands of the same shape; the answer is in dst in any case. */
    void (*run_into)(bench_runnable* runnable, float* dst, const float* a, const float* b,
                     const float* bias);
    /* The same for the sake of its time: operands that come again are prepared once, as a program's
     * are, and the answer is left where the library wants it, as by run_at. */
    void (*time_into)(bench_runnable* runnable, float* dst, const float* a, const float* b,
                      const float* bias);
    /* From now on operand a lies there. */
    void (*move_a)(bench_runnable* runnable, const float* a);
    void (*destroy)(bench_runnable* runnable);
} bench_peer;

/* The module's one export. */
typedef const bench_peer* (*bench_peer_module_function)(void);
#define BENCH_PEER_MODULE_SYMBOL "bench_peer_module"

#ifdef __cplusplus
}
#endif
#endif
