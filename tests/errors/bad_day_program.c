/* SPDX-License-Identifier: Apache-2.0
 * An ordinary program on a bad day: products of small whole numbers, which every order of summation
 * gives the same bits, each compared with plain loops. It prints what it computed, never what Whet
 * did, and ends with 7.
 *
 * usage: bad_day_program MILLISECONDS [served] [until FILE] [report FILE]
 *   served: goes on until a plan serves; until: goes on until FILE is there; report: writes Whet's
 *   report there at the end
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../report_text.h"

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

enum { kExit = 7, kWrong = 1, kUnserved = 3, kLargest = 128, kPatienceSeconds = 100 };

static const struct {
    char ta, tb;
    int m, n, k;
} products[] = {{'N', 'N', 64, 64, 64}, {'T', 'N', 96, 80, 72}, {'N', 'T', 48, 128, 64},
                {'N', 'N', 61, 67, 71}, {'T', 'T', 80, 64, 96}, {'N', 'N', 64, 33, 128}};
enum { kProducts = sizeof products / sizeof products[0] };

static float a[kLargest * kLargest], b[kLargest * kLargest], c[kLargest * kLargest];
static float expected[kProducts][kLargest * kLargest];

static void fill(void) {
    for (int i = 0; i < kLargest * kLargest; ++i) {
        a[i] = (float)(i % 7 - 3);
        b[i] = (float)(i % 11 - 5);
    }
    for (int p = 0; p < kProducts; ++p) {
        const int m = products[p].m, n = products[p].n, k = products[p].k;
        for (int j = 0; j < n; ++j) {
            for (int i = 0; i < m; ++i) {
                float sum = 0;
                for (int q = 0; q < k; ++q) {
                    sum += (products[p].ta == 'N' ? a[q * m + i] : a[i * k + q]) *
                           (products[p].tb == 'N' ? b[j * k + q] : b[q * n + j]);
                }
                expected[p][j * m + i] = sum;
            }
        }
    }
}

static void multiply_all(void) {
    const float one = 1, zero = 0;
    for (int p = 0; p < kProducts; ++p) {
        const int m = products[p].m, n = products[p].n, k = products[p].k;
        const int lda = products[p].ta == 'N' ? m : k, ldb = products[p].tb == 'N' ? k : n;
        memset(c, 0xff, sizeof c);
        sgemm_(&products[p].ta, &products[p].tb, &m, &n, &k, &one, a, &lda, b, &ldb, &zero, c, &m);
        if (memcmp(c, expected[p], (size_t)(m * n) * sizeof(float)) == 0) continue;
        printf("product %d is wrong\n", p);
        fflush(stdout);
        _exit(kWrong);
    }
}

/* Null without Whet. */
static const char* whet_json(void) {
    int (*report)(const char*, void (*)(const char*, size_t, void*), void*);
    *(void**)&report = dlsym(RTLD_DEFAULT, "whet_report");
    clear_report();
    return report && report("json", collect, NULL) == 0 ? report_text : NULL;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
    const double begin = seconds(), duration = argc > 1 ? 1e-3 * atof(argv[1]) : 0;
    const char *until = NULL, *report = NULL;
    int must_serve = 0;
    for (int i = 2; i < argc; ++i) {
        if (strcmp(argv[i], "served") == 0) must_serve = 1;
        if (strcmp(argv[i], "until") == 0 && i + 1 < argc) until = argv[++i];
        if (strcmp(argv[i], "report") == 0 && i + 1 < argc) report = argv[++i];
    }
    fill();
    for (;;) {
        for (int i = 0; i < 20; ++i) multiply_all();
        if (must_serve) {
            const char* json = whet_json();
            if (json && strstr(json, "\"served\": \"whet\"")) must_serve = 0;
        }
        if (until && access(until, F_OK) == 0) until = NULL;
        if (seconds() - begin >= duration && !must_serve && !until) break;
        if (seconds() - begin > kPatienceSeconds) return kUnserved;
    }
    uint64_t digest = 0;
    for (int p = 0; p < kProducts; ++p) {
        for (int i = 0; i < products[p].m * products[p].n; ++i)
            digest = digest * 31 + (uint64_t)(int64_t)expected[p][i];
    }
    printf("%d products, %016llx\n", (int)kProducts, (unsigned long long)digest);
    if (report) {
        FILE* file = fopen(report, "w");
        const char* json = whet_json();
        if (file && json) fputs(json, file);
        if (file) fclose(file);
    }
    return kExit;
}
