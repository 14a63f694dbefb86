#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's multiprocessing and a server's way of forking (everything imported and warm, then workers) under the preload:
every worker answers right, and what the parent's tuning found serves the workers of a later pool.

usage: multiprocessing_test.py LIBRARY      (by a Python that has NumPy)
"""
import ctypes
import importlib.util
import os
import signal
import subprocess
import sys
import time

from bad_day import HOST_STATUS, PATIENCE, SKIPPED, environment, store_folder

SIZE, WORKERS, CALLS = 96, 4, 60


def matrices():
    import numpy as np
    numbers = np.arange(SIZE * SIZE).reshape(SIZE, SIZE)
    a, b = numbers % 7 - 3, numbers % 5 - 2  # every order of summation gives the same bits
    return a.astype(np.float32), b.astype(np.float32), (a @ b).astype(np.float32)


def work(calls):
    import numpy as np
    a, b, expected = matrices()
    for _ in range(calls):
        if not np.array_equal(a @ b, expected):
            return "a wrong product"
    return None


def report():
    whet = ctypes.CDLL(None)
    parts = []
    write = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def take(text, length, _):
        parts.append(ctypes.string_at(text, length))
    whet.whet_report(b"json", write(take), None)
    return b"".join(parts).decode()


def served():
    return '"served": "whet"' in report()


def worker_of_a_server():
    signal.alarm(2 * PATIENCE)
    if not served():
        return 1
    problem = work(CALLS)
    return HOST_STATUS if problem is None else 2


def program():
    import multiprocessing
    for round_, kinds in enumerate((("fork", "spawn"), ("fork", "forkserver"))):
        for kind in kinds:
            with multiprocessing.get_context(kind).Pool(WORKERS) as pool:
                answers = pool.map_async(work, [CALLS] * WORKERS)
                if round_ and work(CALLS):  # the parent works too
                    return 3
                if any(answers.get(2 * PATIENCE)):
                    return 4
        end = time.monotonic() + PATIENCE
        while not served():
            if work(CALLS) or time.monotonic() > end:
                return 5
    children = []
    for _ in range(WORKERS):
        child = os.fork()
        if child == 0:
            os._exit(worker_of_a_server())
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    return HOST_STATUS if codes == [HOST_STATUS] * WORKERS else 6


def main():
    if sys.argv[1] == "program":
        return program()
    if not importlib.util.find_spec("numpy"):
        return SKIPPED
    with store_folder() as folder:
        for forge in ("process", "thread"):
            chosen = environment(sys.argv[1], {"WHET_FORCE": "whet", "WHET_BUDGET_CPU": "1", "WHET_FORGE": forge,
                                               "WHET_STORE": os.path.join(folder, forge, "store.db")})
            done = subprocess.run([sys.executable, __file__, "program"], env=chosen, capture_output=True, text=True, check=False)
            if done.returncode != HOST_STATUS or done.stdout or done.stderr:
                print(f"{forge}: exit {done.returncode}, expected {HOST_STATUS} and silence\n{done.stdout}{done.stderr}")
                return 1
    print("pools and forked workers answer as ever")
    return 0


if __name__ == "__main__":
    sys.exit(main())
