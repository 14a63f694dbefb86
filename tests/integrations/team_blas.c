/* SPDX-License-Identifier: Apache-2.0
 * A BLAS of one function, not transposed, whose loops run on OpenMP's threads. */
void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc) {
    (void)ta;
    (void)tb;
#pragma omp parallel for
    for (int j = 0; j < *n; ++j) {
        for (int i = 0; i < *m; ++i) {
            float sum = 0;
            for (int p = 0; p < *k; ++p) sum += a[i + p * *lda] * b[p + j * *ldb];
            float* const at = c + i + j * *ldc;
            *at = *alpha * sum + (*beta == 0 ? 0 : *beta * *at);
        }
    }
}
