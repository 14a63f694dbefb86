/* SPDX-License-Identifier: Apache-2.0
 * The C ABI of Whet: describe an operation, get its site, call it.
 *
 * Conventions:
 * - Every function returns a whet_status, never throws, never aborts, never prints to stdout. The
 *   text of the calling thread's last failure is in whet_last_error().
 * - Strides are in elements and may be 0 on a source; a stride of an axis of extent 1 is ignored.
 * - A whet_site is valid as long as the process. All functions are thread-safe unless they say
 *   otherwise.
 * - Nothing starts when the library is loaded: threads, processes and files begin with the first
 *   site that is called, and never when WHET_BUDGET_CPU=0, WHET_TUNE=off without a store, or
 *   WHET_ENABLE=0.
 */
#ifndef WHET_WHET_H
#define WHET_WHET_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#error "whet supports x86-64 Linux"
#endif
#define WHET_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef enum whet_status {
    WHET_OK = 0,           /* done */
    WHET_INVALID_ARGUMENT, /* the input contradicts itself; nothing was written */
    WHET_UNSUPPORTED,      /* legal, but not Whet's: use your own implementation */
    WHET_NOT_FOUND,        /* no such thing */
    WHET_OUT_OF_BUDGET,    /* a budget is used up */
    WHET_COMPILE_FAILED,   /* code generation failed */
    WHET_VERIFY_FAILED,    /* a candidate was wrong */
    WHET_DEVICE_ERROR,     /* a device failed */
    WHET_IO_ERROR,         /* a file, socket or process failed */
    WHET_INTERNAL          /* an invariant of Whet broke; tuning stops, results stay right */
} whet_status;

typedef enum whet_dtype {
    WHET_F32 = 1, /* IEEE binary32 */
    WHET_F64      /* IEEE binary64; matrix products only */
} whet_dtype;

typedef enum whet_kind {
    WHET_MATMUL = 1, /* dst[.., M, N] = epilogue(alpha a[.., M, K] b[.., K, N] + beta dst + bias) */
    WHET_CONV, /* dst[N, Co, ..] = epilogue(conv(src[N, Ci, ..], weights[Co, Ci/g, ..]) + bias) */
    WHET_CONV_TRANSPOSE, /* dst[N, Co, ..] = epilogue(deconv(src, weights[Ci, Co/g, ..]) + bias) */
    WHET_SOFTMAX         /* dst[R, C] = softmax over C of src[R, C] */
} whet_kind;

typedef enum whet_epilogue {
    WHET_EPILOGUE_NONE = 0, /* the value as it is */
    WHET_EPILOGUE_RELU      /* max(value, 0); NaN stays NaN */
} whet_epilogue;

#define WHET_MAX_RANK 6
#define WHET_MAX_OPERANDS 4

/* A tensor as the caller holds it (the meaning of DLPack's DLTensor). strides == NULL: compact
 * row-major. */
typedef struct whet_tensor {
    void* data;
    whet_dtype dtype;
    int32_t rank;
    const int64_t* extents;
    const int64_t* strides;
} whet_tensor;

/* An operand's shape inside a whet_op: the tensor without its data. */
typedef struct whet_view {
    int32_t dtype;
    int32_t rank;
    int64_t extents[WHET_MAX_RANK];
    int64_t strides[WHET_MAX_RANK];
} whet_view;

/* Which operand is which in whet_op.operands and in whet_site_call. Convolutions: A = src,
 * B = weights; softmax: A = src. */
enum { WHET_DST = 0, WHET_A = 1, WHET_B = 2, WHET_BIAS = 3 };

/* What is computed. Plain data: copy it, compare it; fill it by the whet_op_* functions only.
 * Unused bytes are 0. */
typedef struct whet_op {
    uint32_t size;          /* sizeof(whet_op): the ABI's version */
    uint32_t kind;          /* whet_kind */
    uint32_t epilogue;      /* whet_epilogue */
    uint32_t operand_count; /* 2 (softmax) or 3, 4 with a bias */
    uint32_t frozen;        /* bit i: operand i is promised constant by whet_freeze */
    uint32_t bias_axis;   /* matmul: 1 = along N (a bias of [N]), 0 = along M; conv: 0, along Co */
    double alpha, beta;   /* matmul; else 1 and 0. Of an f32 operation: f32 values */
    int32_t spatial_rank; /* convolutions: 1, 2, 3 */
    int32_t groups;       /* convolutions */
    uint32_t threads;     /* that share the work; 0: the calling thread alone */
    uint32_t reserved;    /* 0 */
    int32_t stride[3], padding[3], dilation[3], output_padding[3];
    whet_view operands[WHET_MAX_OPERANDS];
} whet_op;

/* The text of this thread's last failure; "" when there was none. Valid until the thread's next
 * call. */
WHET_API const char* whet_last_error(void);
WHET_API const char* whet_version(void);

/* ---- operations: each checks everything and fills *op, or changes nothing -------------------- */

/* c: [batch..., M, N], a: [batch..., M, K], b: [batch..., K, N] (rank 2 or 3; a stride-0 batch axis
 * broadcasts); transposes are strides. All operands f32, or all f64; alpha and beta are rounded
 * to their type. bias: NULL, [N] or [M, 1] (then beta must be 0). c must not
 * overlap a, b or bias. Errors: invalid_argument (shapes do not fit), unsupported (dtype, rank,
 * output stride 0). */
WHET_API whet_status whet_op_matmul(whet_op* op, const whet_tensor* c, const whet_tensor* a,
                                    const whet_tensor* b, const whet_tensor* bias, double alpha,
                                    double beta, whet_epilogue epilogue);

typedef struct whet_conv_params {
    int32_t stride[3], padding[3], dilation[3], output_padding[3];
    int32_t groups;
} whet_conv_params;

/* dst: [N, Co, spatial...], src: [N, Ci, spatial...], weights: [Co, Ci / groups, kernel...]; 1 to 3
 * spatial axes. */
WHET_API whet_status whet_op_conv(whet_op* op, const whet_tensor* dst, const whet_tensor* src,
                                  const whet_tensor* weights, const whet_tensor* bias,
                                  const whet_conv_params* params, whet_epilogue epilogue);
/* weights: [Ci, Co / groups, kernel...]. */
WHET_API whet_status whet_op_conv_transpose(whet_op* op, const whet_tensor* dst,
                                            const whet_tensor* src, const whet_tensor* weights,
                                            const whet_tensor* bias, const whet_conv_params* params,
                                            whet_epilogue epilogue);
/* dst, src: [rows, columns]; softmax over the last axis. */
WHET_API whet_status whet_op_softmax(whet_op* op, const whet_tensor* dst, const whet_tensor* src);
/* Marks operand `index` as frozen in the operation (its bytes must be promised by whet_freeze
 * before calls). */
WHET_API whet_status whet_op_set_frozen(whet_op* op, int index);
/* Says that the program runs the operation on `threads` threads (1 to WHET_MAX_THREADS; 1: the
 * calling thread alone). Plans then spread their tasks over as many; the bits do not depend on it.
 */
#define WHET_MAX_THREADS 1024
WHET_API whet_status whet_op_set_threads(whet_op* op, int threads);

/* ---- sites ----------------------------------------------------------------------------------- */

typedef struct whet_site whet_site;
/* Computes the operation on these operands; called when no plan is installed, on the caller's
 * thread. */
typedef void (*whet_fallback)(void* user);
/* The original implementation as the background may call it: on Whet's own buffers of the
 * operation's shapes, from another thread. operands: as in whet_site_call. */
typedef void (*whet_original)(const whet_op* op, void* const* operands, void* context);

/* Finds or makes the slot of an operation (exact extents and strides). Cheap when repeated;
 * allocates when new. Errors: invalid_argument, unsupported, out_of_budget. */
WHET_API whet_status whet_site_get(const whet_op* op, whet_site** site);
/* Tells how to run the original in the background, so that Whet can decide which of the two is
 * faster. Without it the decision waits for timings of live calls. */
WHET_API whet_status whet_site_set_original(whet_site* site, whet_original original, void* context);
/* Runs the site's current plan on operands (one data pointer per operand of the operation, in its
 * order), or fallback(user). The operands' shapes and strides are those of the operation.
 * Lock-free, no allocation on a hit. */
WHET_API whet_status whet_site_call(whet_site* site, void* const* operands, int count,
                                    whet_fallback fallback, void* user);

/* Threads of the program. run: calls task(data, i) once for every i in [0, count), on any threads,
 * at once as far as it can, and returns when all have returned. It must not fail. */
typedef struct whet_executor {
    void (*run)(void* self, int count, void (*task)(void* data, int index), void* data);
    void* self;
} whet_executor;
/* whet_site_call for an operation of several threads: the plan's tasks run through `executor`; with
 * null, or where the operation has one thread, on the calling thread. */
WHET_API whet_status whet_site_call_on(whet_site* site, void* const* operands, int count,
                                       const whet_executor* executor, whet_fallback fallback,
                                       void* user);

/* ---- for integrations ------------------------------------------------------------------------ */

/* 1 under WHET_NUMERICS=invariant: every call is then Whet's, however small and however many threads
 * the original would use, since no result may depend on who computed it. Does not change. */
WHET_API int whet_is_invariant(void);

/* Why an integration left a call to the original without asking a site. */
typedef enum whet_bypass {
    WHET_BYPASS_UNSUPPORTED = 0, /* a form that no whet_op has: negative increments, overlap ... */
    WHET_BYPASS_THREADS,         /* the original would use threads that only it can use */
    WHET_BYPASS_FULL             /* no site left for it */
} whet_bypass;
/* Counts one such call, for the report. Tiny calls are not counted: counting costs what they do. */
WHET_API void whet_count_bypass(whet_bypass reason);

/* ---- frozen operands ------------------------------------------------------------------------- */

/* Promises that `bytes` at `pointer` keep their content and stay mapped until whet_thaw. */
WHET_API whet_status whet_freeze(const void* pointer, size_t bytes);
WHET_API whet_status whet_thaw(const void* pointer);
/* Counts the changes to what is frozen; 0 while nothing ever was. One load: remember answers of
 * whet_is_frozen by it. */
WHET_API uint64_t whet_frozen_generation(void);
/* 1 when [pointer, pointer + bytes) lies in one frozen range, else 0. */
WHET_API int whet_is_frozen(const void* pointer, size_t bytes);

/* ---- the table ------------------------------------------------------------------------------- */

WHET_API whet_status whet_enable(void);  /* serve plans (the default) */
WHET_API whet_status whet_disable(void); /* every call goes to its fallback */
WHET_API whet_status whet_pause(void);   /* serve, but tune nothing */
WHET_API whet_status whet_resume(void);
WHET_API whet_status whet_pin(void); /* the table changes no more */
/* Waits until every known site is settled (its budget used up or nothing left to gain), at most
 * `seconds`. */
WHET_API whet_status whet_drain(double seconds);
typedef void (*whet_write)(const char* text, size_t length, void* user);
/* format: "text", "json" or "prometheus". */
WHET_API whet_status whet_report(const char* format, whet_write write, void* user);
/* Asks the forge a question in text (the command line's inspect, tune): see docs/text_calls.md.
 * Blocks. */
WHET_API whet_status whet_text_call(const char* request, whet_write write, void* user);

/* Puts a candidate in front of verification; only with WHET_TEST_HOOKS=1. text: a schedule as text,
 * or raw x86-64 code of one microkernel (bytes > 0). skip_static: pass the static check (process
 * mode only). */
WHET_API whet_status whet_test_plant(whet_site* site, const void* text_or_blob, size_t bytes,
                                     int skip_static);

#ifdef __cplusplus
}
#endif
#endif
