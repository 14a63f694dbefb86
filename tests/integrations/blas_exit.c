/* SPDX-License-Identifier: Apache-2.0
 * Multiplies twice and ends, while the tuner has just started: the program's exit must not change
 * (case C12).
 */
void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

int main(void) {
    static float a[32 * 32], b[32 * 32], c[32 * 32];
    const int n = 32;
    const float one = 1, zero = 0;
    for (int i = 0; i < n * n; ++i) a[i] = b[i] = 1;
    sgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    sgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
    return c[5] == 32 ? 0 : 1;
}
