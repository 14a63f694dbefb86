/* SPDX-License-Identifier: Apache-2.0
 * A subreaper that multiplies under Whet and executes another program that does: its wait calls see
 * that one and nobody else.
 *
 * usage: reaper_program fork|spawn
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../report_text.h"

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

enum { kSize = 64, kPatienceSeconds = 100 };

static void multiply(void) {
    static float a[kSize * kSize], b[kSize * kSize], c[kSize * kSize];
    const int n = kSize;
    const float one = 1, zero = 0;
    sgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
}

/* Multiplies until the forge of this process runs. */
static int work(void) {
    int (*report)(const char*, void (*)(const char*, size_t, void*), void*);
    *(void**)&report = dlsym(RTLD_DEFAULT, "whet_report");
    const time_t begin = time(NULL);
    do {
        for (int i = 0; i < 100; ++i) multiply();
        clear_report();
        if (!report || report("json", collect, NULL) != 0) return 1;
        if (strstr(report_text, "\"forge\": \"thread\"") || strstr(report_text, "\"forge\": \"process\""))
            return 0;
    } while (time(NULL) - begin < kPatienceSeconds);
    printf("no forge\n");
    return 1;
}

static pid_t execute(const char* way, char* program) {
    char* const arguments[] = {program, "child", NULL};
    setenv("WHET_FORGE", "auto", 1); /* this process has WHET_FORGE=thread and says nothing */
    pid_t child = -1;
    if (strcmp(way, "spawn") == 0) {
        if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0) return -1;
        return child;
    }
    child = fork();
    if (child != 0) return child;
    execv(program, arguments);
    _exit(127);
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    if (strcmp(argv[1], "child") == 0) return work();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (work() != 0) return 1;
    const pid_t child = execute(argv[1], argv[0]);
    int status = -1;
    if (child <= 0 || waitpid(-1, &status, 0) != child || status != 0) {
        printf("the child ended with %d\n", status);
        return 1;
    }
    /* A helper that this process inherited would be a child that still runs, or has ended. */
    const pid_t other = waitpid(-1, &status, WNOHANG);
    if (other == -1 && errno == ECHILD) return 0;
    printf("an unknown child: %d\n", (int)other);
    return 1;
}
