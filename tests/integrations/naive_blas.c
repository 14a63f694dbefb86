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

void FORTRAN(gemm)(const char* ta, const char* tb, const blas_int* m, const blas_int* n,
                    const blas_int* k, const element* alpha, const element* a, const blas_int* lda,
                    const element* b, const blas_int* ldb, const element* beta, element* c,
                    const blas_int* ldc, size_t ta_length, size_t tb_length) {
    check_length("gemm", ta_length);
    check_length("gemm", tb_length);
    const int a_t = is_transposed(*ta), b_t = is_transposed(*tb);
    if (!is_letter(*ta)) return refuse("gemm", 1);
    if (!is_letter(*tb)) return refuse("gemm", 2);
    if (*m < 0) return refuse("gemm", 3);
    if (*n < 0) return refuse("gemm", 4);
    if (*k < 0) return refuse("gemm", 5);
    if (*lda < (a_t ? *k : *m) || *lda < 1) return refuse("gemm", 8);
    if (*ldb < (b_t ? *n : *k) || *ldb < 1) return refuse("gemm", 10);
    if (*ldc < *m || *ldc < 1) return refuse("gemm", 13);
    for (blas_int j = 0; j < *n; ++j) {
        for (blas_int i = 0; i < *m; ++i) {
            double sum = 0;
            for (blas_int p = 0; p < *k && *alpha != 0; ++p) {
                sum += (double)(a_t ? a[p + i * *lda] : a[i + p * *lda]) *
                       (b_t ? b[j + p * *ldb] : b[p + j * *ldb]);
            }
            const double old = *beta == 0 ? 0 : *beta * (double)c[i + j * *ldc];
            c[i + j * *ldc] = (element)((*alpha == 0 ? 0 : *alpha * sum) + old);
        }
    }
}

void FORTRAN(gemv)(const char* trans, const blas_int* m, const blas_int* n, const element* alpha,
                    const element* a, const blas_int* lda, const element* x, const blas_int* incx,
                    const element* beta, element* y, const blas_int* incy, size_t trans_length) {
    check_length("gemv", trans_length);
    const int t = is_transposed(*trans);
    if (!is_letter(*trans)) return refuse("gemv", 1);
    if (*m < 0) return refuse("gemv", 2);
    if (*n < 0) return refuse("gemv", 3);
    if (*lda < *m || *lda < 1) return refuse("gemv", 6);
    if (*incx == 0) return refuse("gemv", 8);
    if (*incy == 0) return refuse("gemv", 11);
    if (*m == 0 || *n == 0) return;
    const blas_int rows = t ? *n : *m, depth = t ? *m : *n;
    for (blas_int i = 0; i < rows; ++i) {
        double sum = 0;
        for (blas_int p = 0; p < depth && *alpha != 0; ++p) {
            const blas_int at = *incx > 0 ? p * *incx : (p - depth + 1) * *incx;
            sum += (double)(t ? a[p + i * *lda] : a[i + p * *lda]) * x[at];
        }
        element* out = y + (*incy > 0 ? i * *incy : (i - rows + 1) * *incy);
        const double old = *beta == 0 ? 0 : *beta * (double)*out;
        *out = (element)((*alpha == 0 ? 0 : *alpha * sum) + old);
    }
}

static char letter_of(int code) { return code == 111 ? 'N' : code == 112 ? 'T' : code == 113 ? 'C' : '?'; }

void CBLAS(gemm)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k, element alpha,
                  const element* a, blas_int lda, const element* b, blas_int ldb, element beta, element* c,
                  blas_int ldc) {
    const char a_letter = letter_of(ta), b_letter = letter_of(tb);
    if (layout == 102) {
        FORTRAN(gemm)(&a_letter, &b_letter, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
    } else if (layout == 101) {
        FORTRAN(gemm)(&b_letter, &a_letter, &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc, 1, 1);
    } else {
        refuse("cblas_gemm", 1);
    }
}

void CBLAS(gemv)(int layout, int trans, blas_int m, blas_int n, element alpha, const element* a,
                  blas_int lda, const element* x, blas_int incx, element beta, element* y, blas_int incy) {
    const char letter = letter_of(trans), other = letter == 'N' ? 'T' : letter == '?' ? '?' : 'N';
    if (layout == 102) {
        FORTRAN(gemv)(&letter, &m, &n, &alpha, a, &lda, x, &incx, &beta, y, &incy, 1);
    } else if (layout == 101) {
        FORTRAN(gemv)(&other, &n, &m, &alpha, a, &lda, x, &incx, &beta, y, &incy, 1);
    } else {
        refuse("cblas_gemv", 1);
    }
}

void CBLAS(gemm_batch)(int layout, const int* ta, const int* tb, const blas_int* m,
                        const blas_int* n, const blas_int* k, const element* alpha, const element** a,
                        const blas_int* lda, const element** b, const blas_int* ldb,
                        const element* beta, element** c, const blas_int* ldc, blas_int groups,
                        const blas_int* group_size) {
    for (blas_int group = 0, at = 0; group < groups; ++group) {
        for (blas_int i = 0; i < group_size[group]; ++i, ++at) {
            CBLAS(gemm)(layout, ta[group], tb[group], m[group], n[group], k[group], alpha[group],
                         a[at], lda[group], b[at], ldb[group], beta[group], c[at], ldc[group]);
        }
    }
}

void CBLAS(gemm_batch_strided)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k,
                                element alpha, const element* a, blas_int lda, blas_int step_a,
                                const element* b, blas_int ldb, blas_int step_b, element beta, element* c,
                                blas_int ldc, blas_int step_c, blas_int count) {
    for (blas_int i = 0; i < count; ++i) {
        CBLAS(gemm)(layout, ta, tb, m, n, k, alpha, a + i * step_a, lda, b + i * step_b, ldb, beta,
                     c + i * step_c, ldc);
    }
}
