/* SPDX-License-Identifier: Apache-2.0
 * An ordinary C program that multiplies matrices through a BLAS (in f32, or in f64 by BLAS_F64), to be run with libwhet_blas.so
 * preloaded: every answer is compared with plain loops before tuning, while it runs, and after
 * plans serve. Public bug cases C05, C07, C08, C09, C11, C14. Prints one line per phase; exits with
 * 1 at the first wrong answer.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../report_text.h"

#ifdef BLAS_F64
typedef double element;
#define GEMM dgemm_
#define CBLAS_GEMM cblas_dgemm
#define UNIT_ROUNDOFF 1.12e-16
#else
typedef float element;
#define GEMM sgemm_
#define CBLAS_GEMM cblas_sgemm
#define UNIT_ROUNDOFF 6e-8
#endif

void GEMM(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const element* alpha, const element* a, const int* lda, const element* b, const int* ldb,
            const element* beta, element* c, const int* ldc);
void CBLAS_GEMM(int layout, int ta, int tb, int m, int n, int k, element alpha, const element* a,
                 int lda, const element* b, int ldb, element beta, element* c, int ldc);

static const char* phase = "before";
static int failures, sigchld_seen;

static uint32_t random_state = 1;
static element uniform(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (element)(int32_t)random_state * ((element)1 / 2147483648u);
}

/* Memory that ends (back) or begins (front) at an unmapped page. */
struct guarded {
    unsigned char* map;
    size_t bytes;
    element* data;
};
static struct guarded guard(size_t count, size_t offset, int front) {
    struct guarded g;
    const size_t page = 4096, need = (count * sizeof(element) + offset + page - 1) / page * page;
    g.bytes = need + 2 * page;
    g.map = mmap(NULL, g.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(g.map + page, need, PROT_READ | PROT_WRITE);
    g.data = (element*)(front ? g.map + page + offset : g.map + page + need - count * sizeof(element) - offset);
    return g;
}
static void release(struct guarded g) { munmap(g.map, g.bytes); }

struct product {
    char ta, tb;
    int m, n, k, pad_a, pad_b, pad_c;
    element alpha, beta;
    size_t offset;
    int front, row_major, nan_c;
};

static int close_enough(double got, double want, double magnitude, int k) {
    if (isnan(want)) return isnan(got);
    return fabs(got - want) <= (k + 2) * UNIT_ROUNDOFF * magnitude + 1e-30;
}

static void run_product(struct product p) {
    const int rows_a = p.ta == 'N' ? p.m : p.k, cols_a = p.ta == 'N' ? p.k : p.m;
    const int rows_b = p.tb == 'N' ? p.k : p.n, cols_b = p.tb == 'N' ? p.n : p.k;
    const int lda = rows_a + p.pad_a, ldb = rows_b + p.pad_b, ldc = p.m + p.pad_c;
    const size_t size_a = (size_t)(cols_a - 1) * lda + rows_a,
                 size_b = (size_t)(cols_b - 1) * ldb + rows_b;
    const size_t size_c = (size_t)(p.n - 1) * ldc + p.m;
    struct guarded ga = guard(size_a, p.offset, p.front), gb = guard(size_b, p.offset, p.front),
                   gc = guard(size_c, p.offset, p.front);
    element* old = malloc(size_c * sizeof(element));
    for (size_t i = 0; i < size_a; ++i) ga.data[i] = uniform();
    for (size_t i = 0; i < size_b; ++i) gb.data[i] = uniform();
    for (size_t i = 0; i < size_c; ++i) gc.data[i] = p.nan_c ? NAN : uniform();
    for (int j = 0; j + 1 < p.n; ++j)
        for (int i = p.m; i < ldc; ++i) gc.data[(size_t)j * ldc + i] = 7;
    memcpy(old, gc.data, size_c * sizeof(element));
    if (p.row_major) { /* the same memory, read by rows */
        CBLAS_GEMM(101, p.tb == 'N' ? 111 : 112, p.ta == 'N' ? 111 : 112, p.n, p.m, p.k, p.alpha,
                    gb.data, ldb, ga.data, lda, p.beta, gc.data, ldc);
    } else {
        GEMM(&p.ta, &p.tb, &p.m, &p.n, &p.k, &p.alpha, ga.data, &lda, gb.data, &ldb, &p.beta,
               gc.data, &ldc);
    }
    for (int j = 0; j < p.n; ++j) {
        for (int i = 0; i < ldc && (size_t)j * ldc + i < size_c; ++i) {
            const element got = gc.data[(size_t)j * ldc + i];
            if (i >= p.m) {
                if (got != 7) {
                    printf("FAIL %s: wrote between columns\n", phase);
                    ++failures;
                }
                continue;
            }
            long double sum = 0; /* the answer, beside f64 results too */
            double magnitude = 0;
            for (int q = 0; q < p.k; ++q) {
                const double x =
                    p.ta == 'N' ? ga.data[(size_t)q * lda + i] : ga.data[(size_t)i * lda + q];
                const double y =
                    p.tb == 'N' ? gb.data[(size_t)j * ldb + q] : gb.data[(size_t)q * ldb + j];
                sum += (long double)x * y;
                magnitude += fabs(x * y);
            }
            double want = (double)(p.alpha * sum);
            magnitude *= fabs(p.alpha);
            if (p.beta != 0) {
                want += (double)p.beta * old[(size_t)j * ldc + i];
                magnitude += fabs((double)p.beta * old[(size_t)j * ldc + i]);
            }
            if (!close_enough(got, want, magnitude, p.k) && failures++ < 10) {
                printf(
                    "FAIL %s: %c%c m=%d n=%d k=%d alpha=%g beta=%g at (%d, %d): got %.17g, expected "
                    "%.17g\n",
                    phase, p.ta, p.tb, p.m, p.n, p.k, p.alpha, p.beta, i, j, got, want);
            }
        }
    }
    free(old);
    release(ga), release(gb), release(gc);
}

/* C05, C08, C09: beta and alpha classes, transposes, leading dimensions, every base offset, all
 * small widths. Every product is large enough (kTinyProduct) not to be left to the original. */
static void run_cases(void) {
    static const char letters[] = "NT";
    for (int t = 0; t < 4; ++t) {
        for (int row_major = 0; row_major < 2; ++row_major) {
            const char ta = letters[t & 1], tb = letters[t >> 1];
            run_product((struct product){ta, tb, 67, 61, 37, 0, 0, 0, 1, 0, 0, 0, row_major, 1});
            run_product((struct product){ta, tb, 64, 48, 64, 3, 5, 7, 1, 1, 0, 0, row_major, 0});
            run_product(
                (struct product){ta, tb, 72, 56, 40, 1, 0, 2, -0.5f, 2, 4, 1, row_major, 0});
        }
    }
    for (int width = 1; width <= 33; width += 2) {
        const int depth = 2048 / width + 40;
        run_product((struct product){'T', 'N', width, 64, depth, 0, 0, 0, 1, 0, 0, 0, 0, 1});
        run_product((struct product){'N', 'N', 64, width, depth, 0, 0, 0, 1, 0, 0, 1, 0, 1});
    }
    for (size_t offset = sizeof(element); offset < 64; offset += sizeof(element))
        run_product(
            (struct product){'N', 'N', 71, 53, 41, 0, 0, 1, 1, 0, offset, (int)(offset & 8), 0, 0});
    run_product((struct product){'T', 'N', 96, 20, 600, 0, 0, 0, 1, 1, 0, 0, 0,
                                 0}); /* more than one segment */
}

/* C05 alpha = 0 and C07: nothing to multiply. */
static void run_empty(void) {
    /* Large: the small kernels of OpenBLAS 0.3.21 read a and b at alpha = 0, and an original is not
     * corrected. */
    enum { large = 256 };
    static element big_a[large * large], big_c[large * large];
    element a[400], b[400], c[400], one = 1, two = 2, zero = 0;
    int n20 = 20, n0 = 0, one_i = 1, n_large = large;
    for (int i = 0; i < large * large; ++i) big_a[i] = NAN, big_c[i] = 5;
    GEMM("N", "N", &n_large, &n_large, &n_large, &zero, big_a, &n_large, big_a, &n_large, &two,
           big_c, &n_large);
    for (int i = 0; i < large * large; ++i)
        if (big_c[i] != 10) {
            printf("FAIL %s: alpha = 0\n", phase);
            ++failures;
            return;
        }
    for (int i = 0; i < 400; ++i) a[i] = b[i] = NAN, c[i] = 10;
    GEMM("N", "N", &n20, &n20, &n0, &one, a, &n20, b, &one_i, &two, c, &n20);
    for (int i = 0; i < 400; ++i)
        if (c[i] != 20) {
            printf("FAIL %s: k = 0\n", phase);
            ++failures;
            return;
        }
    GEMM("N", "N", &n0, &n20, &n20, &one, NULL, &one_i, b, &n20, &zero, NULL, &one_i);
    GEMM("N", "N", &n20, &n0, &n20, &one, a, &n20, NULL, &n20, &zero, NULL, &n20);
    for (int i = 0; i < 400; ++i)
        if (c[i] != 20) {
            printf("FAIL %s: m = 0 or n = 0 wrote\n", phase);
            ++failures;
            return;
        }
}

enum { weight_size = 64 };
static element times_weight(const element* w) {
    static element x[weight_size * weight_size], y[weight_size * weight_size];
    const int n = weight_size;
    const element one = 1, zero = 0;
    for (int i = 0; i < n * n; ++i) x[i] = i % (n + 1) == 0 ? 3 : 0;
    GEMM("N", "N", &n, &n, &n, &one, w, &n, x, &n, &zero, y, &n);
    return y[0];
}

static void expect(element got, element want, const char* what) {
    if (got == want) return;
    printf("FAIL %s: %s: got %g, expected %g\n", phase, what, got, want);
    ++failures;
}

static int (*freeze)(const void*, size_t), (*thaw)(const void*);

/* C14: changed, freed and frozen weights. */
static void run_weights(void) {
    enum { count = weight_size * weight_size, bytes = count * sizeof(element) };
    element* w = malloc(bytes);
    for (int i = 0; i < count; ++i) w[i] = 1;
    expect(times_weight(w), 3, "first weight");
    w[0] = 2;
    expect(times_weight(w), 6, "weight changed through its pointer");
    free(w);
    element* w2 = malloc(bytes);
    for (int i = 0; i < count; ++i) w2[i] = 5;
    expect(times_weight(w2), 15, "new weight at an old address");
    if (freeze && freeze(w2, bytes) == 0) {
        for (int i = 0; i < 200; ++i) expect(times_weight(w2), 15, "frozen weight");
        thaw(w2);
        w2[0] = 4;
        expect(times_weight(w2), 12, "weight changed after thaw");
    }
    free(w2);
}

static void on_sigchld(int signal) {
    (void)signal;
    sigchld_seen = 1;
}

/* C11: children answer too. */
static void run_forks(void) {
    for (int i = 0; i < 5; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            failures = 0;
            run_cases();
            _exit(failures ? 1 : 0);
        }
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            printf("FAIL %s: a forked child: status %d\n", phase, status);
            ++failures;
        }
    }
    sigchld_seen = 0;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int (*report)(const char*, void (*)(const char*, size_t, void*), void*);

/* How often `key` stands in the report, and the sum of the numbers behind it. */
static unsigned long long sum_of(const char* key, int* count) {
    unsigned long long sum = 0;
    clear_report();
    *count = 0;
    if (!report || report("json", collect, NULL) != 0) return 0;
    for (const char* at = report_text; (at = strstr(at, key)) != NULL; ++*count) {
        at += strlen(key);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

static int sites_served(void) {
    int count;
    sum_of("\"served\": \"whet\"", &count);
    return count;
}

/* No helper is ever seen as a child, by wait or by signal. */
static void expect_no_child(void) {
    if (waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD && !sigchld_seen) return;
    printf("FAIL %s: the program saw a child\n", phase);
    ++failures;
}

static void run_all(void) {
    run_cases(), run_empty(), run_weights();
    expect_no_child();
}

/* usage: blas_program SECONDS [subreaper] [served]; served: tuning goes on until plans serve */
int main(int argc, char** argv) {
    const double limit = argc > 1 ? atof(argv[1]) : 10;
    int must_serve = 0;
    for (int i = 2; i < argc; ++i) {
        if (strcmp(argv[i], "subreaper") == 0) prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (strcmp(argv[i], "served") == 0) must_serve = 4;
    }
    signal(SIGCHLD, on_sigchld);
    freeze = (int (*)(const void*, size_t))dlsym(RTLD_DEFAULT, "whet_freeze");
    thaw = (int (*)(const void*))dlsym(RTLD_DEFAULT, "whet_thaw");
    *(void**)&report = dlsym(RTLD_DEFAULT, "whet_report");
    run_all();
    phase = "while tuning";
    const double begin = seconds(), patience = 120; /* of a busy machine */
    while (!failures && (seconds() - begin < limit ||
                         (sites_served() < must_serve && seconds() - begin < patience)))
        run_all();
    run_forks();
    phase = "after";
    run_all();
    if (sites_served() < must_serve) {
        printf("FAIL: %d sites are served by whet, expected at least %d\n", sites_served(),
               must_serve);
        ++failures;
    }
    int sites;
    const unsigned long long served = sum_of("\"served_calls\": ", &sites);
    printf("%d failures, %llu served calls\n", failures, served);
    return failures ? 1 : 0;
}
