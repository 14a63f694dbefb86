/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: the time of day jumps by up to ten years in either direction, at every look.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { kYears = 10 };

static atomic_uint dice = 20261201;

static long jump(void) {
    const unsigned number = atomic_fetch_add(&dice, 0x9e3779b9u) * 1664525u;
    const long most = kYears * 365l * 86400;
    return number >> 31 ? (long)(number % (unsigned)most) : -(long)(number % (unsigned)most);
}

static int look(clockid_t clock, struct timespec* t) {
    const long failed = syscall(SYS_clock_gettime, clock, t);
    if (failed) return -1;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) t->tv_sec += jump();
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec* t) { return look(clock, t); }

time_t time(time_t* where) {
    struct timespec t;
    look(CLOCK_REALTIME, &t);
    if (where) *where = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval* where, void* zone) {
    struct timespec t;
    (void)zone;
    look(CLOCK_REALTIME, &t);
    where->tv_sec = t.tv_sec;
    where->tv_usec = t.tv_nsec / 1000;
    return 0;
}
