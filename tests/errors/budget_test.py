#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A budget of nothing: nothing starts and nothing is said, as the system calls of the program tell.

usage: budget_test.py LIBRARY PROGRAM
"""
import os
import re
import subprocess
import sys

from bad_day import SKIPPED, Host, finish, store_folder, verdict

NOTHING = [
    {"WHET_BUDGET_CPU": "0"},
    {"WHET_BUDGET_SECONDS": "0"},
    {"WHET_BUDGET_MEMORY": "0"},
    {"WHET_BUDGET_CODE": "0"},
    {"WHET_BUDGET_TRIALS": "0"},  # these two use a store, and there is none
    {"WHET_TUNE": "off"},
    {"WHET_TUNE": "off", "WHET_STORE": "none"},
    {"WHET_BUDGET_CPU": "0", "WHET_TUNE": "sometimes", "WHET_BUDGET": "5", "WHET_STORE": "/proc/none/store.db"},
    {"WHET_BUDGET_CODE": "0", "WHET_LOG": "shout"},
    {"WHET_ENABLE": "0"},
    {"WHET_FORGE": "off"},
    {"WHET_NUMERICS": "strict"},
]
# What would be a thread, a process, a helper, a store or generated code.
STARTED = re.compile(r"^\d+ +(clone3?|v?fork|execve|socketpair|memfd_create)\(|PROT_WRITE\|PROT_EXEC|"
                     r"(open|openat)\([^\n]*(whet-forge|libwhet_forge|libwhet_llvm|microkernels|store\.db|/proc/1/maps)",
                     re.MULTILINE)
MILLISECONDS = 400


def main():
    library, program = sys.argv[1:]
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode != 0:
        print("no tracing here")
        return SKIPPED
    host = Host(library, program)
    failures = []
    with store_folder() as folder:
        trace = os.path.join(folder, "trace")
        for row in NOTHING:
            changes = {"WHET_STORE": os.path.join(folder, "deep", "store.db"), **row}
            tracer = ["strace", "-f", "-qq", "-s", "4096", "-o", trace]
            lines, problem = host.run(changes, before=tracer, milliseconds=MILLISECONDS)
            with open(trace, encoding="utf-8", errors="replace") as file:
                started = [line for line in file if STARTED.search(line)]
            # env executes the program; strace executed env.
            started = [line for line in started if not re.search(r"execve\([^\n]*(env|" + re.escape(program) + ")", line)]
            if started and not problem:
                problem = "something started: " + "".join(started[:3])
            if os.path.exists(os.path.join(folder, "deep")) and not problem:
                problem = "a store was made"
            failures.append(verdict(row, lines, problem, None))
    return finish(failures, f"{len(NOTHING)} ways to tune nothing start nothing and say nothing")


if __name__ == "__main__":
    sys.exit(main())
