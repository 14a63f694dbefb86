/* SPDX-License-Identifier: Apache-2.0
 * A C program that loads Whet by dlopen, as a plug-in's dependency is loaded, and lets go of it at
 * the worst moments (case C12), forks while it tunes (case C11), or works in another folder. Its own exit status is 7.
 *
 * usage: lifecycle_program LIBRARY loaded|called|tuning|forked|served|moved
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <whet/whet.h>

#include "../report_text.h"

enum { kExit = 7, kSize = 64, kForks = 20, kChildSeconds = 20 };

/* What is looked up; a library without BLAS names is called through its sites. */
static struct {
    void* handle;
    void (*sgemm)(const char*, const char*, const int*, const int*, const int*, const float*,
                  const float*, const int*, const float*, const int*, const float*, float*,
                  const int*);
    whet_status (*op_matmul)(whet_op*, const whet_tensor*, const whet_tensor*, const whet_tensor*,
                             const whet_tensor*, double, double, whet_epilogue);
    whet_status (*site_get)(const whet_op*, whet_site**);
    whet_status (*site_call)(whet_site*, void* const*, int, whet_fallback, void*);
    whet_status (*report)(const char*, whet_write, void*);
} whet;

static float a[kSize * kSize], b[kSize * kSize], expected[kSize * kSize];

static void fail(const char* what) {
    printf("FAIL: %s\n", what);
    fflush(stdout);
    _exit(1);
}

static void* symbol(const char* name) {
    void* found = dlsym(whet.handle, name);
    if (!found) fail(dlerror());
    return found;
}

static void load(const char* library) {
    whet.handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!whet.handle) fail(dlerror());
    *(void**)&whet.sgemm = dlsym(whet.handle, "sgemm_");
    *(void**)&whet.op_matmul = symbol("whet_op_matmul");
    *(void**)&whet.site_get = symbol("whet_site_get");
    *(void**)&whet.site_call = symbol("whet_site_call");
    *(void**)&whet.report = symbol("whet_report");
}

static void multiply(void* dst) {
    float* c = dst;
    for (int i = 0; i < kSize; ++i) {
        for (int j = 0; j < kSize; ++j) {
            float sum = 0;
            for (int k = 0; k < kSize; ++k) sum += a[i * kSize + k] * b[k * kSize + j];
            c[i * kSize + j] = sum;
        }
    }
}

/* One product through the library; small whole numbers, so that every order gives the same bits. */
static void call(void) {
    float c[kSize * kSize];
    memset(c, 0xff, sizeof c);
    if (whet.sgemm) { /* column-major: c' = b' a' */
        const int n = kSize;
        const float one = 1, zero = 0;
        whet.sgemm("N", "N", &n, &n, &n, &one, b, &n, a, &n, &zero, c, &n);
    } else {
        const int64_t extents[] = {kSize, kSize};
        const whet_tensor to = {c, WHET_F32, 2, extents, NULL};
        const whet_tensor left = {a, WHET_F32, 2, extents, NULL};
        const whet_tensor right = {b, WHET_F32, 2, extents, NULL};
        whet_op op;
        whet_site* site = NULL;
        void* operands[] = {c, a, b};
        if (whet.op_matmul(&op, &to, &left, &right, NULL, 1, 0, WHET_EPILOGUE_NONE) != WHET_OK ||
            whet.site_get(&op, &site) != WHET_OK ||
            whet.site_call(site, operands, 3, multiply, c) != WHET_OK)
            fail("a call was refused");
    }
    if (memcmp(c, expected, sizeof c) != 0) fail("wrong product");
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void call_for(double duration) {
    const double end = seconds() + duration;
    do {
        for (int i = 0; i < 50; ++i) call();
    } while (seconds() < end);
}

/* Calls until a plan serves, at most for `limit` seconds. */
static void call_until_served(double limit) {
    const double end = seconds() + limit;
    while (seconds() < end) {
        call_for(0.05);
        clear_report();
        if (whet.report("json", collect, NULL) != WHET_OK) fail("no report");
        if (strstr(report_text, "\"served\": \"whet\"")) return;
    }
    fail("no plan served");
}

static void* fork_often(void* unused) {
    for (int i = 0; i < kForks; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(kChildSeconds); /* a child that hangs is killed and seen */
            for (int j = 0; j < 200; ++j) call();
            _exit(kExit);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
            WEXITSTATUS(status) != kExit)
            fail("a forked child did not end well");
    }
    return unused;
}

static void fork_from_two_threads(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, fork_often, NULL);
    call_for(0.2);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    call();
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    const char *library = argv[1], *moment = argv[2];
    for (int i = 0; i < kSize * kSize; ++i) a[i] = (float)(i % 7 - 3), b[i] = (float)(i % 5 - 2);
    multiply(expected);
    load(library);
    if (strcmp(moment, "forked") == 0) {
        call_for(0.1);
        fork_from_two_threads();
        return kExit;
    }
    if (strcmp(moment, "moved") == 0) { /* LIBRARY is a relative path */
        if (chdir("/") != 0) fail("chdir");
        call_until_served(100);
        return kExit;
    }
    for (int round = 0; round < 3; ++round) {
        if (strcmp(moment, "called") == 0) call();
        if (strcmp(moment, "tuning") == 0) call_for(0.1);
        if (strcmp(moment, "served") == 0) call_until_served(100);
        if (dlclose(whet.handle) != 0) fail(dlerror());
        /* Threads of Whet run on, and a thread's end runs its code: the library stays on purpose.
         */
        void* again = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
        if (!again) fail("the library is gone while its threads may run");
        dlclose(again);
        if (strcmp(moment, "loaded") != 0) call();
        load(library);
    }
    if (strcmp(moment, "served") == 0) fork_from_two_threads();
    dlclose(whet.handle);
    return kExit;
}
