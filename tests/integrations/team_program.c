/* SPDX-License-Identifier: Apache-2.0
 * A program that multiplies on changing numbers of OpenMP threads: outside regions, inside them,
 * from eight threads of its own, and in the child of a fork. Every answer is compared with plain
 * loops; the operands are small whole numbers, so every order of adding gives the same bits. Says
 * nothing and ends with 0 when all are right and Whet served each number of threads. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../report_text.h"

enum { kM = 70, kN = 90, kK = 100, kMostThreads = 4, kPatienceSeconds = 120, kChildSeconds = 30 };

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);
extern int whet_report(const char* format, void (*write)(const char*, size_t, void*), void* user)
    __attribute__((weak));

static float a[kM * kK], b[kK * kN], expected[kM * kN];

/* c = 2 a b + c, where c was 1. */
static void multiply(const char* where) {
    const int m = kM, n = kN, k = kK;
    const float alpha = 2, beta = 1;
    float* const c = malloc(sizeof expected);
    for (int i = 0; i < kM * kN; ++i) c[i] = 1;
    sgemm_("N", "N", &m, &n, &k, &alpha, a, &m, b, &k, &beta, c, &m);
    if (memcmp(c, expected, sizeof expected) != 0) {
        printf("%s: a wrong answer\n", where);
        exit(1);
    }
    free(c);
}

static int sites_served(void) {
    clear_report();
    if (whet_report("json", collect, NULL) != 0) exit(2);
    int count = 0;
    for (const char* at = report_text; (at = strstr(at, "\"served\": \"whet\"")); ++at) ++count;
    return count;
}

static void* eight(void* index) {
    omp_set_num_threads(1 + (int)(size_t)index % 3);
    for (int i = 0; i < 200; ++i) multiply("one of eight threads");
    return NULL;
}

int main(void) {
    for (int i = 0; i < kM * kK; ++i) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < kK * kN; ++i) b[i] = (float)(i % 5 - 2);
    for (int i = 0; i < kM; ++i) {
        for (int j = 0; j < kN; ++j) {
            float sum = 0;
            for (int p = 0; p < kK; ++p) sum += a[i + p * kM] * b[p + j * kK];
            expected[i + j * kM] = 2 * sum + 1;
        }
    }
    const time_t end = time(NULL) + kPatienceSeconds;
    do {
        for (int threads = 1; threads <= kMostThreads; ++threads) {
            omp_set_num_threads(threads);
            for (int i = 0; i < 20; ++i) multiply("outside a region");
        }
    } while (sites_served() < kMostThreads && time(NULL) < end);
    if (sites_served() < kMostThreads) {
        printf("served %d of %d\n%s\n", sites_served(), kMostThreads, report_text);
        return 1;
    }
#pragma omp parallel num_threads(3)
    for (int i = 0; i < 50; ++i) multiply("inside a region");
    pthread_t callers[8];
    for (size_t i = 0; i < 8; ++i) pthread_create(&callers[i], NULL, eight, (void*)i);
    for (int i = 0; i < 8; ++i) pthread_join(callers[i], NULL);
    if (sites_served() != kMostThreads) {
        printf("another number of threads than 1 to %d\n", kMostThreads);
        return 1;
    }
    omp_set_num_threads(2);
    const pid_t child = fork();
    if (child == 0) {
        alarm(kChildSeconds);
        for (int i = 0; i < 50; ++i) multiply("the child of a fork");
        _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) {
        printf("the child ended with %#x\n", (unsigned)status);
        return 1;
    }
    multiply("after a fork");
    return 0;
}
