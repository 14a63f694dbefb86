/* SPDX-License-Identifier: Apache-2.0
 * The BLAS names of one family, chosen by the compiler's command line: PREFIX, FORTRAN_SUFFIX,
 * C_SUFFIX, and BLAS_INT, the type of its integers.
 */
#ifndef FAMILY_NAMES_H
#define FAMILY_NAMES_H

#include <stddef.h>
#include <stdint.h>

typedef BLAS_INT blas_int;

#define JOIN_(a, b, c) a##b##c
#define JOIN(a, b, c) JOIN_(a, b, c)
#define FORTRAN(name) JOIN(PREFIX, name, FORTRAN_SUFFIX)
#define CBLAS(name) JOIN(PREFIX, cblas_##name, C_SUFFIX)

/* Fortran's hidden lengths of trans are declared: the naive BLAS checks them. */
void FORTRAN(sgemm)(const char* ta, const char* tb, const blas_int* m, const blas_int* n,
                    const blas_int* k, const float* alpha, const float* a, const blas_int* lda,
                    const float* b, const blas_int* ldb, const float* beta, float* c,
                    const blas_int* ldc, size_t ta_length, size_t tb_length);
void FORTRAN(sgemv)(const char* trans, const blas_int* m, const blas_int* n, const float* alpha,
                    const float* a, const blas_int* lda, const float* x, const blas_int* incx,
                    const float* beta, float* y, const blas_int* incy, size_t trans_length);
void CBLAS(sgemm)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k, float alpha,
                  const float* a, blas_int lda, const float* b, blas_int ldb, float beta, float* c,
                  blas_int ldc);
void CBLAS(sgemv)(int layout, int trans, blas_int m, blas_int n, float alpha, const float* a,
                  blas_int lda, const float* x, blas_int incx, float beta, float* y, blas_int incy);
void CBLAS(sgemm_batch)(int layout, const int* ta, const int* tb, const blas_int* m,
                        const blas_int* n, const blas_int* k, const float* alpha, const float** a,
                        const blas_int* lda, const float** b, const blas_int* ldb,
                        const float* beta, float** c, const blas_int* ldc, blas_int groups,
                        const blas_int* group_size);
void CBLAS(sgemm_batch_strided)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k,
                                float alpha, const float* a, blas_int lda, blas_int step_a,
                                const float* b, blas_int ldb, blas_int step_b, float beta, float* c,
                                blas_int ldc, blas_int step_c, blas_int count);

#endif
