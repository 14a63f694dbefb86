/* SPDX-License-Identifier: Apache-2.0
 * Calls every BLAS name of one family (family_names.h) with small, empty, odd and large sizes, all
 * letters, all classes of alpha and beta, increments of both signs and wrong arguments, and writes
 * every result to a file, for comparison between runs.
 *
 * usage: family_program FILE ROUNDS LEAST MOST
 * LEAST: multiplications of the least product that Whet takes; MOST: of the largest one called
 *
 * Prints what the BLAS says about wrong arguments and, when libwhet.so is there, how many calls
 * Whet saw and how many it should have seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family_names.h"

#include "../report_text.h"

enum { most = 1 << 17 };
static element a[most], b[most], c[most];
static FILE* file;
static double least, most_products;
static long expected_calls, expected_unsupported;

/* Numbers below 1, the same in every run; each fill begins elsewhere among them. */
static element numbers[2 * most];
static uint32_t random_state;
static uint32_t next_random(void) { return random_state = random_state * 1664525u + 1013904223u; }

static void make_numbers(void) {
    for (int i = 0; i < 2 * most; ++i) numbers[i] = (element)(int32_t)next_random() * (1.0f / 2147483648.0f);
}
static void fill(element* data) { memcpy(data, numbers + (next_random() >> 8) % most, most * sizeof *data); }

static void start(element beta) {
    fill(a), fill(b), fill(c);
    if (beta == 0) /* must not be read */
        for (int i = 0; i < most; i += 3) c[i] = NAN;
}

/* Everything that a call may have written, and what lies behind it. */
static void finish(size_t count) { fwrite(c, sizeof *c, count + 8, file); }

static void count_product(double products, element alpha) {
    if (products > 0 && alpha != 0 && products >= least) ++expected_calls;
}

static int code_of(char letter) {
    return letter == 'N' || letter == 'n' ? 111 : letter == 'T' || letter == 't' ? 112 : 113;
}
static int is_plain(char letter) { return letter == 'N' || letter == 'n'; }
static blas_int at_least_1(blas_int value) { return value < 1 ? 1 : value; }

/* Arguments by address, with other bits behind those of a 32-bit one. */
struct by_address {
    blas_int value;
    int32_t behind;
};
static struct by_address address(blas_int value) { return (struct by_address){value, -1}; }

static void sgemm(char ta, char tb, blas_int m, blas_int n, blas_int k, element alpha, element beta, int pad) {
    if ((double)m * (double)n * (double)k > most_products) return;
    const struct by_address am = address(m), an = address(n), ak = address(k);
    const struct by_address lda = address(at_least_1(is_plain(ta) ? m : k) + pad),
                            ldb = address(at_least_1(is_plain(tb) ? k : n) + pad),
                            ldc = address(at_least_1(m) + pad);
    start(beta);
    FORTRAN(gemm)(&ta, &tb, &am.value, &an.value, &ak.value, &alpha, a, &lda.value, b, &ldb.value,
                   &beta, c, &ldc.value, 1, 1);
    count_product((double)m * (double)n * (double)k, alpha);
    finish((size_t)(ldc.value * n));
}

/* A narrow callee must not look at the upper halves of registers. */
static int64_t by_value(blas_int value) {
    return sizeof value == 8 ? value : (int64_t)(0x7ead000000000000ull | (uint32_t)value);
}

static void c_sgemm(int layout, char ta, char tb, blas_int m, blas_int n, blas_int k, element alpha,
                    element beta, int pad) {
    if ((double)m * (double)n * (double)k > most_products) return;
    void (*wide)(int, int, int, int64_t, int64_t, int64_t, element, const element*, int64_t, const element*,
                 int64_t, element, element*, int64_t);
    *(void**)&wide = (void*)CBLAS(gemm);
    const int row_major = layout == 101;
    const blas_int lda = at_least_1(is_plain(ta) != row_major ? m : k) + pad,
                   ldb = at_least_1(is_plain(tb) != row_major ? k : n) + pad,
                   ldc = at_least_1(row_major ? n : m) + pad;
    start(beta);
    wide(layout, code_of(ta), code_of(tb), by_value(m), by_value(n), by_value(k), alpha, a,
         by_value(lda), b, by_value(ldb), beta, c, by_value(ldc));
    count_product((double)m * (double)n * (double)k, alpha);
    finish((size_t)(ldc * (row_major ? m : n)));
}

static void count_vectors(blas_int m, blas_int n, char trans, element alpha, blas_int incx, blas_int incy) {
    const blas_int rows = is_plain(trans) ? m : n, depth = is_plain(trans) ? n : m;
    const double products = (double)m * (double)n;
    if (products <= 0 || alpha == 0 || products < least) return;
    if ((incx < 0 && depth > 1) || (incy < 0 && rows > 1))
        ++expected_unsupported;
    else
        ++expected_calls;
}

static void sgemv(char trans, blas_int m, blas_int n, element alpha, element beta, blas_int incx, blas_int incy,
                  int pad) {
    if ((double)m * (double)n > most_products) return;
    const struct by_address am = address(m), an = address(n), lda = address(at_least_1(m) + pad),
                            ix = address(incx), iy = address(incy);
    start(beta);
    FORTRAN(gemv)(&trans, &am.value, &an.value, &alpha, a, &lda.value, b, &ix.value, &beta, c,
                   &iy.value, 1);
    count_vectors(m, n, trans, alpha, incx, incy);
    finish((size_t)((is_plain(trans) ? m : n) * llabs(incy)));
}

static void c_sgemv(int layout, char trans, blas_int m, blas_int n, element alpha, element beta, blas_int incx,
                    blas_int incy, int pad) {
    if ((double)m * (double)n > most_products) return;
    start(beta);
    CBLAS(gemv)(layout, code_of(trans), m, n, alpha, a, at_least_1(layout == 101 ? n : m) + pad, b, incx,
                 beta, c, incy);
    count_vectors(m, n, trans, alpha, incx, incy);
    finish((size_t)((is_plain(trans) ? m : n) * llabs(incy)));
}

#ifndef DEBIAN_OPENBLAS
/* `gap`: of the last matrix, so that the batch does not lie evenly. */
static void c_sgemm_batch(int layout, char ta, char tb, blas_int size, blas_int groups, blas_int count,
                          element beta, int gap) {
    enum { most_groups = 3, most_matrices = 16 };
    int tas[most_groups], tbs[most_groups];
    blas_int m[most_groups], n[most_groups], k[most_groups], ld[most_groups], counts[most_groups];
    element alphas[most_groups], betas[most_groups];
    const element *as[most_matrices], *bs[most_matrices];
    element* cs[most_matrices];
    element *next_a = a, *next_b = b, *next_c = c;
    if ((double)count * (double)size * (double)size * (double)size > most_products) return;
    start(beta);
    for (blas_int g = 0, at = 0; g < groups; ++g) {
        tas[g] = code_of(ta), tbs[g] = code_of(tb);
        m[g] = size + g, n[g] = size + 2 * g, k[g] = size + g + 1, ld[g] = size + 5;
        alphas[g] = 1 + (element)g, betas[g] = beta, counts[g] = count - (g == 1);
        for (blas_int i = 0; i < counts[g]; ++i, ++at) {
            const int more = gap && i == counts[g] - 1 ? gap : 0;
            const size_t step = (size_t)(ld[g] * ld[g] + more);
            as[at] = next_a + more, bs[at] = next_b + more, cs[at] = next_c + more;
            next_a += step, next_b += step, next_c += step;
        }
        const double products = (double)counts[g] * (double)m[g] * (double)n[g] * (double)k[g];
        if (products > 0 && products >= least) {
            if (gap && counts[g] > 2)
                ++expected_unsupported;
            else
                ++expected_calls;
        }
    }
    CBLAS(gemm_batch)(layout, tas, tbs, m, n, k, alphas, as, ld, bs, ld, betas, cs, ld, groups, counts);
    finish((size_t)(next_c - c));
}

static void c_sgemm_batch_strided(int layout, char ta, char tb, blas_int size, blas_int count, element beta,
                                  int pad) {
    const blas_int ld = size + 3, step = ld * ld + pad;
    if ((double)count * (double)size * (double)size * (double)size > most_products) return;
    start(beta);
    CBLAS(gemm_batch_strided)(layout, code_of(ta), code_of(tb), size, size + 1, size + 2, 1.5f, a, ld,
                               step, b, ld, 0, beta, c, ld, step, count);
    count_product((double)count * (double)size * (double)(size + 1) * (double)(size + 2), 1);
    finish((size_t)(count * step));
}

static void run_batches(void) {
    for (int layout = 101; layout <= 102; ++layout) {
        for (int i = 0; i < 4; ++i) {
            const char ta = "NTNc"[i], tb = "NNTn"[i];
            for (blas_int groups = 0; groups <= 3; ++groups) {
                c_sgemm_batch(layout, ta, tb, 13, groups, 3, 0, 0);
                c_sgemm_batch(layout, ta, tb, 31, groups, 4, 1, 0);
                c_sgemm_batch(layout, ta, tb, 31, groups, 4, 1, 16);
            }
            c_sgemm_batch(layout, ta, tb, 0, 1, 3, 0, 0);
            for (blas_int count = 0; count <= 5; ++count) {
                c_sgemm_batch_strided(layout, ta, tb, 41, count, 0, 0);
                c_sgemm_batch_strided(layout, ta, tb, 7, count, 2, 5);
            }
        }
    }
}
#else
static void run_batches(void) {}
#endif

static const element scalars[][2] = {{1, 0}, {1, 1}, {-0.5f, 2}, {0, 0}, {0, 2}, {NAN, 0}, {1, NAN}};
enum { scalar_count = sizeof scalars / sizeof *scalars };

static void run_products(void) {
    static const blas_int sizes[][3] = {{0, 3, 4},    {3, 0, 4},    {3, 4, 0},    {1, 1, 1},  {1, 7, 31},
                                        {13, 1, 5},   {2, 3, 1},    {31, 13, 17}, {67, 61, 37},
                                        {1, 251, 97}, {64, 48, 64}, {53, 8, 521}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        const blas_int m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        for (int t = 0; t < 36; ++t) {
            const char ta = "NTCntc"[t % 6], tb = "NTCntc"[t / 6];
            const element* const scalar = scalars[t % scalar_count];
            sgemm(ta, tb, m, n, k, scalar[0], scalar[1], t % 3);
            c_sgemm(101 + t % 2, ta, tb, m, n, k, scalar[0], scalar[1], t % 4);
        }
    }
}

/* Debian's OpenBLAS takes a beta of NaN for 1 in sgemv, and has no batches. */
#ifdef DEBIAN_OPENBLAS
enum { vector_scalar_count = scalar_count - 1 };
#else
enum { vector_scalar_count = scalar_count };
#endif

static void run_vectors(void) {
    static const blas_int sizes[][2] = {{0, 3}, {3, 0}, {1, 1}, {1, 9}, {9, 1}, {31, 17}, {211, 307}};
    static const blas_int increments[][2] = {{1, 1}, {2, 1}, {1, 3}, {3, 2}, {-1, 1}, {1, -2}, {-2, -1}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        for (int i = 0; i < 7 * vector_scalar_count; ++i) {
            const blas_int m = sizes[s][0], n = sizes[s][1];
            const blas_int* const step = increments[i % 7];
            const element* const scalar = scalars[i / 7];
            const char trans = "NTCntc"[(i + (int)s) % 6];
            sgemv(trans, m, n, scalar[0], scalar[1], step[0], step[1], i % 3);
            c_sgemv(101 + i % 2, trans, m, n, scalar[0], scalar[1], step[0], step[1], i % 2);
        }
    }
}

/* Sizes are large enough for Whet's attention. */
static void run_wrong_arguments(void) {
    const blas_int n = 60, minus = -1, small = 59, zero = 0, one = 1, large = 400, shorter = 399;
    const element alpha = 1, beta = 0;
    start(1);
    FORTRAN(gemm)("X", "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "?", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "N", &minus, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "N", &n, &minus, &n, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "N", &n, &n, &minus, &alpha, a, &n, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "N", &n, &n, &n, &alpha, a, &small, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("T", "N", &n, &n, &n, &alpha, a, &small, b, &n, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "N", &n, &n, &n, &alpha, a, &n, b, &small, &beta, c, &n, 1, 1);
    FORTRAN(gemm)("N", "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &small, 1, 1);
    CBLAS(gemm)(101, 111, 111, n, n, n, alpha, a, n, b, n, beta, c, small);
    CBLAS(gemm)(102, 111, 112, n, n, n, alpha, a, n, b, small, beta, c, n);
    CBLAS(gemm)(102, 111, 111, n, n, minus, alpha, a, n, b, n, beta, c, n);
    FORTRAN(gemv)("X", &large, &n, &alpha, a, &large, b, &one, &beta, c, &one, 1);
    FORTRAN(gemv)("N", &large, &n, &alpha, a, &shorter, b, &one, &beta, c, &one, 1);
    FORTRAN(gemv)("N", &large, &n, &alpha, a, &large, b, &zero, &beta, c, &one, 1);
    FORTRAN(gemv)("N", &large, &n, &alpha, a, &large, b, &one, &beta, c, &zero, 1);
    CBLAS(gemv)(101, 111, n, large, alpha, a, shorter, b, one, beta, c, one);
    finish(most - 8);
}

static unsigned long long sum_of(const char* key) {
    unsigned long long sum = 0;
    for (const char* at = report_text; (at = strstr(at, key)) != NULL;)
        at += strlen(key), sum += strtoull(at, NULL, 10);
    return sum;
}

static int counts_are_right(void) {
    int (*report)(const char*, void (*)(const char*, size_t, void*), void*);
    *(void**)&report = dlsym(RTLD_DEFAULT, "whet_report");
    if (!report) return 1;
    if (report("json", collect, NULL) != 0) return 0;
    const unsigned long long calls = sum_of("\"calls\": "), unsupported = sum_of("\"unsupported\": ");
    fprintf(stderr, "whet saw %llu calls of %ld, and %llu of %ld that it does not support\n", calls,
            expected_calls, unsupported, expected_unsupported);
    return calls == (unsigned long long)expected_calls &&
           unsupported == (unsigned long long)expected_unsupported;
}

int main(int argc, char** argv) {
    if (argc != 5 || !(file = fopen(argv[1], "wb"))) return 2;
    const int rounds = atoi(argv[2]);
    least = atof(argv[3]), most_products = atof(argv[4]);
    make_numbers();
    for (int round = 0; round < rounds; ++round) {
        random_state = 7; /* the same in every round */
        run_products();
        run_vectors();
        run_batches();
        run_wrong_arguments();
    }
    fclose(file);
    return counts_are_right() ? 0 : 1;
}
