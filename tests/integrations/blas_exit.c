/* SPDX-License-Identifier: Apache-2.0
 * Multiplies for some milliseconds (none: twice) and ends while the tuner works: the program's exit
 * must not change (case C12).
 *
 * usage: blas_exit [MILLISECONDS [known]]; known: ends with 3 when Whet knows of no product
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

enum { kSize = 64 }; /* large enough not to be left to the original */

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int found_product;
static void look_for_product(const char* text, size_t length, void* user) {
    (void)user;
    if (memmem(text, length, "matmul", 6)) found_product = 1;
}

int main(int argc, char** argv) {
    static float a[kSize * kSize], b[kSize * kSize], c[kSize * kSize];
    const int n = kSize;
    const float one = 1, zero = 0;
    for (int i = 0; i < n * n; ++i) a[i] = b[i] = 1;
    const double end = milliseconds() + (argc > 1 ? atof(argv[1]) : 0);
    do {
        sgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        sgemm_("N", "T", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        if (c[5] != kSize) return 1;
    } while (milliseconds() < end);
    if (argc > 2) {
        int (*report)(const char*, void (*)(const char*, size_t, void*), void*);
        *(void**)&report = dlsym(RTLD_DEFAULT, "whet_report");
        if (!report || report("text", look_for_product, NULL) != 0 || !found_product) return 3;
    }
    return 0;
}
