/* SPDX-License-Identifier: Apache-2.0
 * Multiplies for some milliseconds (none: twice) and ends while the tuner works: the program's exit
 * must not change (case C12).
 *
 * usage: blas_exit [MILLISECONDS]
 */
#include <stdlib.h>
#include <time.h>

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
    static float a[32 * 32], b[32 * 32], c[32 * 32];
    const int n = 32;
    const float one = 1, zero = 0;
    for (int i = 0; i < n * n; ++i) a[i] = b[i] = 1;
    const double end = milliseconds() + (argc > 1 ? atof(argv[1]) : 0);
    do {
        sgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        sgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        if (c[5] != 32) return 1;
    } while (milliseconds() < end);
    return 0;
}
