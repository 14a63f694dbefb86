/* SPDX-License-Identifier: Apache-2.0
 * Runs a command that the system denies something. Ends with 77 where the system cannot deny it.
 *
 * usage: deny memfd|code|gain|threads COMMAND [ARGUMENT...]
 *   memfd: no memory files; code: nothing executable but files mapped privately (what the loader
 *   does); gain: PR_SET_MDWE, no mapping becomes executable later; threads: none, nor processes
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kSkipped = 77, kUsage = 2, kSetMdwe = 65, kRefuseExecGain = 1 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ARGUMENT(n) LOAD(args[n])
#define IF_NOT_CALL(number, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, (skip))
#define IF_NO_BIT(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, (skip))
#define IF_BIT(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (skip), 0)
#define REFUSE(error) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter no_memfd[] = {
    LOAD(nr), IF_NOT_CALL(SYS_memfd_create, 1), REFUSE(EPERM), ALLOW,
};

static struct sock_filter no_code[] = {
    LOAD(nr),
    IF_NOT_CALL(SYS_memfd_create, 1), REFUSE(EPERM),
    IF_NOT_CALL(SYS_mprotect, 4), ARGUMENT(2), IF_NO_BIT(PROT_EXEC, 1), REFUSE(EACCES), ALLOW,
    IF_NOT_CALL(SYS_mmap, 6), ARGUMENT(2), IF_NO_BIT(PROT_EXEC, 3), ARGUMENT(3),
    IF_NO_BIT(MAP_SHARED | MAP_ANONYMOUS, 1), REFUSE(EACCES), ALLOW,
    ALLOW,
};

static struct sock_filter no_threads[] = {
    LOAD(nr),
    IF_NOT_CALL(SYS_clone3, 1), REFUSE(ENOSYS), /* the C library then uses clone */
    IF_NOT_CALL(SYS_clone, 1), REFUSE(EAGAIN),
    IF_NOT_CALL(SYS_vfork, 1), REFUSE(EAGAIN),
    IF_NOT_CALL(SYS_fork, 1), REFUSE(EAGAIN),
    ALLOW,
};

static int filter(struct sock_filter* steps, size_t count) {
    struct sock_fprog program = {(unsigned short)count, steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#define FILTER(steps) filter(steps, sizeof steps / sizeof *steps)

int main(int argc, char** argv) {
    if (argc < 3) return kUsage;
    int denied = 0;
    if (strcmp(argv[1], "memfd") == 0) denied = FILTER(no_memfd);
    else if (strcmp(argv[1], "code") == 0) denied = FILTER(no_code);
    else if (strcmp(argv[1], "threads") == 0) denied = FILTER(no_threads);
    else if (strcmp(argv[1], "gain") == 0) denied = prctl(kSetMdwe, kRefuseExecGain, 0, 0, 0) == 0;
    else return kUsage;
    if (!denied) {
        printf("%s cannot be denied here: %s\n", argv[1], strerror(errno));
        return kSkipped;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return kUsage;
}
