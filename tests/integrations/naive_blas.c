/* SPDX-License-Identifier: Apache-2.0
 * A BLAS of plain loops under the names of one family (family_names.h). As in the reference BLAS,
 * its C functions call its Fortran functions through the dynamic linker, and Fortran functions that
 * are called without their hidden lengths say so.
 */
#include <ctype.h>
#include <stdio.h>

#include "family_names.h"

int openblas_get_num_threads(void) { return 1; }

static void refuse(const char* name, int argument) {
    printf("%s: argument %d is wrong\n", name, argument);
}

static void check_length(const char* name, size_t length) {
    if (length != 1) printf("%s: got a hidden length of %zu\n", name, length);
}

static int is_transposed(char letter) { return toupper(letter) != 'N'; }
static int is_letter(char letter) {
    return toupper(letter) == 'N' || toupper(letter) == 'T' || toupper(letter) == 'C';
}

void FORTRAN(sgemm)(const char* ta, const char* tb, const blas_int* m, const blas_int* n,
                    const blas_int* k, const float* alpha, const float* a, const blas_int* lda,
                    const float* b, const blas_int* ldb, const float* beta, float* c,
                    const blas_int* ldc, size_t ta_length, size_t tb_length) {
    check_length("sgemm", ta_length);
    check_length("sgemm", tb_length);
    const int a_t = is_transposed(*ta), b_t = is_transposed(*tb);
    if (!is_letter(*ta)) return refuse("sgemm", 1);
    if (!is_letter(*tb)) return refuse("sgemm", 2);
    if (*m < 0) return refuse("sgemm", 3);
    if (*n < 0) return refuse("sgemm", 4);
    if (*k < 0) return refuse("sgemm", 5);
    if (*lda < (a_t ? *k : *m) || *lda < 1) return refuse("sgemm", 8);
    if (*ldb < (b_t ? *n : *k) || *ldb < 1) return refuse("sgemm", 10);
    if (*ldc < *m || *ldc < 1) return refuse("sgemm", 13);
    for (blas_int j = 0; j < *n; ++j) {
        for (blas_int i = 0; i < *m; ++i) {
            double sum = 0;
            for (blas_int p = 0; p < *k && *alpha != 0; ++p) {
                sum += (double)(a_t ? a[p + i * *lda] : a[i + p * *lda]) *
                       (b_t ? b[j + p * *ldb] : b[p + j * *ldb]);
            }
            const double old = *beta == 0 ? 0 : *beta * (double)c[i + j * *ldc];
            c[i + j * *ldc] = (float)((*alpha == 0 ? 0 : *alpha * sum) + old);
        }
    }
}

void FORTRAN(sgemv)(const char* trans, const blas_int* m, const blas_int* n, const float* alpha,
                    const float* a, const blas_int* lda, const float* x, const blas_int* incx,
                    const float* beta, float* y, const blas_int* incy, size_t trans_length) {
    check_length("sgemv", trans_length);
    const int t = is_transposed(*trans);
    if (!is_letter(*trans)) return refuse("sgemv", 1);
    if (*m < 0) return refuse("sgemv", 2);
    if (*n < 0) return refuse("sgemv", 3);
    if (*lda < *m || *lda < 1) return refuse("sgemv", 6);
    if (*incx == 0) return refuse("sgemv", 8);
    if (*incy == 0) return refuse("sgemv", 11);
    if (*m == 0 || *n == 0) return;
    const blas_int rows = t ? *n : *m, depth = t ? *m : *n;
    for (blas_int i = 0; i < rows; ++i) {
        double sum = 0;
        for (blas_int p = 0; p < depth && *alpha != 0; ++p) {
            const blas_int at = *incx > 0 ? p * *incx : (p - depth + 1) * *incx;
            sum += (double)(t ? a[p + i * *lda] : a[i + p * *lda]) * x[at];
        }
        float* out = y + (*incy > 0 ? i * *incy : (i - rows + 1) * *incy);
        const double old = *beta == 0 ? 0 : *beta * (double)*out;
        *out = (float)((*alpha == 0 ? 0 : *alpha * sum) + old);
    }
}

static char letter_of(int code) { return code == 111 ? 'N' : code == 112 ? 'T' : code == 113 ? 'C' : '?'; }

void CBLAS(sgemm)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k, float alpha,
                  const float* a, blas_int lda, const float* b, blas_int ldb, float beta, float* c,
                  blas_int ldc) {
    const char a_letter = letter_of(ta), b_letter = letter_of(tb);
    if (layout == 102) {
        FORTRAN(sgemm)(&a_letter, &b_letter, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
    } else if (layout == 101) {
        FORTRAN(sgemm)(&b_letter, &a_letter, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
    } else {
        refuse("cblas_sgemm", 1);
    }
}

void CBLAS(sgemv)(int layout, int trans, blas_int m, blas_int n, float alpha, const float* a,
                  blas_int lda, const float* x, blas_int incx, float beta, float* y, blas_int incy) {
    const char letter = letter_of(trans), other = letter == 'N' ? 'T' : letter == '?' ? '?' : 'N';
    if (layout == 102) {
        FORTRAN(sgemv)(&letter, &m, &n, &alpha, a, &lda, x, &incx, &beta, y, &incy, 1);
    } else if (layout == 101) {
        FORTRAN(sgemv)(&other, &n, &m, &alpha, a, &lda, x, &incx, &beta, y, &incy, 1);
    } else {
        refuse("cblas_sgemv", 1);
    }
}

void CBLAS(sgemm_batch)(int layout, const int* ta, const int* tb, const blas_int* m,
                        const blas_int* n, const blas_int* k, const float* alpha, const float** a,
                        const blas_int* lda, const float** b, const blas_int* ldb,
                        const float* beta, float** c, const blas_int* ldc, blas_int groups,
                        const blas_int* group_size) {
    for (blas_int group = 0, at = 0; group < groups; ++group) {
        for (blas_int i = 0; i < group_size[group]; ++i, ++at) {
            CBLAS(sgemm)(layout, ta[group], tb[group], m[group], n[group], k[group], alpha[group],
                         a[at], lda[group], b[at], ldb[group], beta[group], c[at], ldc[group]);
        }
    }
}

void CBLAS(sgemm_batch_strided)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k,
                                float alpha, const float* a, blas_int lda, blas_int step_a,
                                const float* b, blas_int ldb, blas_int step_b, float beta, float* c,
                                blas_int ldc, blas_int step_c, blas_int count) {
    for (blas_int i = 0; i < count; ++i) {
        CBLAS(sgemm)(layout, ta, tb, m, n, k, alpha, a + i * step_a, lda, b + i * step_b, ldb, beta,
                     c + i * step_c, ldc);
    }
}
