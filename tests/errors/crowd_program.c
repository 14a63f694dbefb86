/* SPDX-License-Identifier: Apache-2.0
 * An ordinary program over a BLAS, with threads, forks, children that execute and signals, to be run
 * with libwhet_blas.so preloaded (cases C11 and C12). Products of small whole numbers, which every
 * order of summation gives the same bits. Ends with 7; says on standard output what went wrong.
 *
 * usage: crowd_program forks N SEED | starts N | workers parent|self|both | signals N SEED | threads N
 *   forks: N forks from two threads, from the first call on; every child multiplies and ends in time
 *   starts: vfork, posix_spawn, system and popen, while it is tuned
 *   workers: four forked workers, after the parent was tuned, or before anybody was, or both
 *   signals: N signals, each taken by the thread that waits for it while all others block it
 *   threads: N threads that multiply and end, eight at a time
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../report_text.h"

void sgemm_(const char* ta, const char* tb, const int* m, const int* n, const int* k,
            const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
            const float* beta, float* c, const int* ldc);

enum { kExit = 7, kSize = 64, kChildSeconds = 200, kPatienceSeconds = 200, kWorkers = 4 };

static float a[kSize * kSize], b[kSize * kSize], expected[kSize * kSize];

static void fail(const char* what) {
    printf("FAIL: %s\n", what);
    fflush(stdout);
    _exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void prepare(void) {
    for (int i = 0; i < kSize * kSize; ++i) a[i] = (float)(i % 7 - 3), b[i] = (float)(i % 5 - 2);
    for (int j = 0; j < kSize; ++j) {
        for (int i = 0; i < kSize; ++i) {
            float sum = 0;
            for (int k = 0; k < kSize; ++k) sum += a[k * kSize + i] * b[j * kSize + k];
            expected[j * kSize + i] = sum;
        }
    }
}

/* One of a few products: the first `columns` columns of the whole one. */
static void multiply(int columns) {
    float c[kSize * kSize];
    const int n = kSize;
    const float one = 1, zero = 0;
    memset(c, 0xff, sizeof c);
    sgemm_("N", "N", &n, &columns, &n, &one, a, &n, b, &n, &zero, c, &n);
    if (memcmp(c, expected, (size_t)(n * columns) * sizeof(float)) != 0) fail("a wrong product");
}

static void multiply_some(int times) {
    for (int i = 0; i < times; ++i) multiply(kSize - i % 8);
}

/* Null without Whet. */
static const char* whet_json(void) {
    int (*report)(const char*, void (*)(const char*, size_t, void*), void*);
    *(void**)&report = dlsym(RTLD_DEFAULT, "whet_report");
    clear_report();
    return report && report("json", collect, NULL) == 0 ? report_text : NULL;
}

static const char kServed[] = "\"served\": \"whet\"";

static int reported(const char* text) {
    const char* json = whet_json();
    return json && strstr(json, text) != NULL;
}

/* Multiplies until the report holds one of two texts. */
static void multiply_until(const char* text, const char* other) {
    const double end = seconds() + kPatienceSeconds;
    while (!reported(text) && !reported(other)) {
        multiply_some(50);
        if (seconds() < end) continue;
        printf("FAIL: no %s in %s\n", text, report_text);
        fflush(stdout);
        _exit(1);
    }
}
static void multiply_until_served(void) { multiply_until(kServed, kServed); }
static void multiply_until_forge(void) {
    multiply_until("\"forge\": \"process\"", "\"forge\": \"thread\"");
}

static void expect_child(pid_t child, int expected_status) {
    int status = -1;
    if (child <= 0) fail("no child");
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == expected_status) return;
    printf("FAIL: a child ended with %#x\n", (unsigned)status);
    fflush(stdout);
    _exit(1);
}

/* No helper is ever a child of this program. */
static void expect_no_child(void) {
    if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD) fail("an unknown child");
}

/* ---- forks ---- */

static int forks_of_a_thread;
static volatile int forks_done;

static void* fork_often(void* seed) {
    unsigned dice = (unsigned)(uintptr_t)seed;
    for (int i = 0; i < forks_of_a_thread; ++i) {
        dice = dice * 1664525u + 1013904223u;
        if (dice >> 30 == 0) usleep(dice >> 10 & 4095); /* now and then somewhere else in time */
        const pid_t child = fork();
        if (child == 0) {
            alarm(kChildSeconds); /* a child that hangs is killed and seen */
            multiply_some(20);
            _exit(kExit);
        }
        expect_child(child, kExit);
    }
    __atomic_add_fetch(&forks_done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void fork_from_two_threads(int forks, unsigned seed) {
    pthread_t threads[2];
    forks_of_a_thread = (forks + 1) / 2;
    multiply(kSize); /* the tuner starts, the first compile is soon in flight */
    for (unsigned i = 0; i < 2; ++i)
        pthread_create(&threads[i], NULL, fork_often, (void*)(uintptr_t)(seed + i));
    while (__atomic_load_n(&forks_done, __ATOMIC_SEQ_CST) < 2) multiply_some(50);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    multiply_some(200);
    expect_no_child();
}

/* ---- starts ---- */

static void start_others(int rounds) {
    multiply_until_forge();
    for (int i = 0; i < rounds; ++i) {
        multiply_some(50);
        const pid_t child = vfork();
        if (child == 0) {
            execl("/bin/sh", "sh", "-c", "exit 7", (char*)NULL);
            _exit(1);
        }
        expect_child(child, kExit);
        pid_t spawned = -1;
        char* const arguments[] = {"sh", "-c", "exit 7", NULL};
        if (posix_spawn(&spawned, "/bin/sh", NULL, NULL, arguments, environ) != 0) fail("no spawn");
        expect_child(spawned, kExit);
        const int status = system("exit 7");
        if (!WIFEXITED(status) || WEXITSTATUS(status) != kExit) fail("system");
        FILE* pipe = popen("echo seven", "r");
        char line[16] = "";
        if (!pipe || !fgets(line, sizeof line, pipe) || strcmp(line, "seven\n") != 0) fail("popen");
        if (pclose(pipe) != 0) fail("pclose");
    }
    expect_no_child();
}

/* ---- workers ---- */

static void worker(int tuned) {
    alarm(kChildSeconds);
    if (tuned && !reported(kServed)) fail("a worker lost its parent's plans");
    multiply_some(100);
    if (!tuned) multiply_until_served();
    _exit(kExit);
}

static void fork_workers(const char* who) {
    const int parent = strcmp(who, "self") != 0, later = strcmp(who, "both") == 0;
    if (parent) multiply_until_served();
    for (int round = 0; round <= later; ++round) {
        pid_t workers[kWorkers];
        for (int i = 0; i < kWorkers; ++i) {
            workers[i] = fork();
            if (workers[i] == 0) worker(parent);
        }
        if (parent) multiply_some(500);
        for (int i = 0; i < kWorkers; ++i) expect_child(workers[i], kExit);
    }
    expect_no_child();
}

/* ---- signals ---- */

static const int kSignals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD};
enum { kKinds = sizeof kSignals / sizeof kSignals[0] };
static sigset_t taken;
static volatile int arrived;

static void* wait_for_signals(void* unused) {
    for (;;) {
        int number = 0;
        if (sigwait(&taken, &number) != 0) fail("sigwait");
        __atomic_store_n(&arrived, number, __ATOMIC_SEQ_CST);
    }
    return unused;
}

/* Every thread but this program's own blocks every signal: a handler of the host never runs there. */
static void expect_deaf_threads(void) {
    DIR* folder = opendir("/proc/self/task");
    for (struct dirent* entry; folder && (entry = readdir(folder)) != NULL;) {
        char path[300], line[200], name[64] = "";
        unsigned long long blocked = 0;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE* file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            sscanf(line, "Name: %63s", name);
            sscanf(line, "SigBlk: %llx", &blocked);
        }
        if (file) fclose(file);
        /* All but SIGKILL, SIGSTOP and what the C library keeps for itself (32 to 34). */
        const unsigned long long wanted = 0xfffffffc7ffbfeffull;
        if (strncmp(name, "whet-", 5) == 0 && (blocked & wanted) != wanted) {
            printf("FAIL: %s blocks %llx\n", name, blocked);
            fflush(stdout);
            _exit(1);
        }
    }
    if (folder) closedir(folder);
}

static void take_signals(int rounds, unsigned seed) {
    pthread_t waiting;
    sigemptyset(&taken);
    for (int i = 0; i < kKinds; ++i) sigaddset(&taken, kSignals[i]);
    pthread_sigmask(SIG_BLOCK, &taken, NULL);
    pthread_create(&waiting, NULL, wait_for_signals, NULL);
    multiply_until_forge();
    for (int i = 0; i < rounds; ++i) {
        seed = seed * 1664525u + 1013904223u;
        multiply_some(1 + (int)(seed >> 24));
        const int number = kSignals[(seed >> 16) % kKinds];
        arrived = 0;
        kill(getpid(), number);
        const double end = seconds() + kPatienceSeconds;
        while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) != number) {
            multiply_some(1);
            if (seconds() > end) fail("a signal was lost");
        }
        expect_deaf_threads();
    }
}

/* ---- threads ---- */

static void* multiply_and_end(void* unused) {
    multiply_some(64);
    return unused;
}

static void end_threads(int threads) {
    enum { kAtOnce = 8 };
    for (int i = 0; i < threads; i += kAtOnce) {
        pthread_t some[kAtOnce];
        for (int t = 0; t < kAtOnce; ++t) {
            if (pthread_create(&some[t], NULL, multiply_and_end, NULL) != 0) fail("no thread");
        }
        for (int t = 0; t < kAtOnce; ++t) pthread_join(some[t], NULL);
    }
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const char* what = argv[1];
    const int number = atoi(argv[2]);
    const unsigned seed = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
    prepare();
    if (strcmp(what, "forks") == 0) fork_from_two_threads(number, seed);
    else if (strcmp(what, "starts") == 0) start_others(number);
    else if (strcmp(what, "workers") == 0) fork_workers(argv[2]);
    else if (strcmp(what, "signals") == 0) take_signals(number, seed);
    else if (strcmp(what, "threads") == 0) end_threads(number);
    else return 2;
    return kExit;
}
