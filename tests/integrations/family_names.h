/* SPDX-License-Identifier: Apache-2.0
 * The BLAS names of one family, chosen by the compiler's command line: PREFIX, FORTRAN_SUFFIX,
 * C_SUFFIX, BLAS_INT, the type of its integers, and BLAS_F64, where the names are those of f64.
 */
#ifndef FAMILY_NAMES_H
#define FAMILY_NAMES_H

#include <stddef.h>
#include <stdint.h>

typedef BLAS_INT blas_int;
#ifdef BLAS_F64
typedef double element;
#define LETTER d
#else
typedef float element;
#define LETTER s
#endif

#define JOIN_(a, b, c, d) a##b##c##d
#define JOIN(a, b, c, d) JOIN_(a, b, c, d)
#define FORTRAN(name) JOIN(PREFIX, LETTER, name, FORTRAN_SUFFIX)
#define CBLAS_(prefix, letter, name, suffix) JOIN_(prefix, cblas_##letter, name, suffix)
#define CBLAS_OF(prefix, letter, name, suffix) CBLAS_(prefix, letter, name, suffix)
#define CBLAS(name) CBLAS_OF(PREFIX, LETTER, name, C_SUFFIX)

/* Fortran's hidden lengths of trans are declared: the naive BLAS checks them. */
void FORTRAN(gemm)(const char* ta, const char* tb, const blas_int* m, const blas_int* n,
                    const blas_int* k, const element* alpha, const element* a, const blas_int* lda,
                    const element* b, const blas_int* ldb, const element* beta, element* c,
                    const blas_int* ldc, size_t ta_length, size_t tb_length);
void FORTRAN(gemv)(const char* trans, const blas_int* m, const blas_int* n, const element* alpha,
                    const element* a, const blas_int* lda, const element* x, const blas_int* incx,
                    const element* beta, element* y, const blas_int* incy, size_t trans_length);
void CBLAS(gemm)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k, element alpha,
                  const element* a, blas_int lda, const element* b, blas_int ldb, element beta, element* c,
                  blas_int ldc);
void CBLAS(gemv)(int layout, int trans, blas_int m, blas_int n, element alpha, const element* a,
                  blas_int lda, const element* x, blas_int incx, element beta, element* y, blas_int incy);
void CBLAS(gemm_batch)(int layout, const int* ta, const int* tb, const blas_int* m,
                        const blas_int* n, const blas_int* k, const element* alpha, const element** a,
                        const blas_int* lda, const element** b, const blas_int* ldb,
                        const element* beta, element** c, const blas_int* ldc, blas_int groups,
                        const blas_int* group_size);
void CBLAS(gemm_batch_strided)(int layout, int ta, int tb, blas_int m, blas_int n, blas_int k,
                                element alpha, const element* a, blas_int lda, blas_int step_a,
                                const element* b, blas_int ldb, blas_int step_b, element beta, element* c,
                                blas_int ldc, blas_int step_c, blas_int count);

#endif
