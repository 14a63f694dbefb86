/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: every cpuid of the process from here on speaks of a CPU without AVX2 and AVX-512. The
 * instruction is made to fault, and the handler answers. Ends the program with 77 where the machine
 * cannot do that.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSkipped = 77, kArchSetCpuid = 0x1012 };

static long let_cpuid_run(int yes) { return syscall(SYS_arch_prctl, kArchSetCpuid, yes); }

static void on_fault(int signal_number, siginfo_t* info, void* user) {
    (void)info;
    greg_t* const r = ((ucontext_t*)user)->uc_mcontext.gregs;
    static const uint8_t cpuid[] = {0x0f, 0xa2};
    if (memcmp((const void*)r[REG_RIP], cpuid, sizeof cpuid) != 0) {
        signal(signal_number, SIG_DFL);
        return;
    }
    const unsigned leaf = (unsigned)r[REG_RAX], index = (unsigned)r[REG_RCX];
    unsigned ax, bx, cx, dx;
    let_cpuid_run(1);
    __cpuid_count(leaf, index, ax, bx, cx, dx);
    let_cpuid_run(0);
    const unsigned avx2 = 1u << 5, avx512_and_later = 0xdc230000u;
    if (leaf == 7) {
        bx = index == 0 ? bx & ~(avx2 | avx512_and_later) : bx;
        ax = index == 1 ? 0 : ax;
        cx = dx = 0;
    }
    r[REG_RAX] = ax, r[REG_RBX] = bx, r[REG_RCX] = cx, r[REG_RDX] = dx;
    r[REG_RIP] += sizeof cpuid;
}

__attribute__((constructor)) static void become_old(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, NULL);
    if (let_cpuid_run(0) != 0) _exit(kSkipped);
}
