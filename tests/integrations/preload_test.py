#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs with libwhet_blas.so preloaded.

usage: preload_test.py LIBRARY exit PROGRAM RUNS | run PROGRAM [ARGUMENT...] | note TEXT PROGRAM [ARGUMENT...]
       preload_test.py LIBRARY first TEXT PROGRAM [ARGUMENT...] | alone TEXT PROGRAM [ARGUMENT...]
       preload_test.py LIBRARY warm PROGRAM [ARGUMENT...]

`exit`: RUNS runs of different lengths must end with 0 and write nothing. `run`: one run must end with 0 and say nothing on standard error.
`note`: it must say one line there that holds TEXT. `first`: the same as PID 1 of a PID namespace (skipped where none
can be made). `alone`: the same with copies of the libraries, no helper beside them. `warm`: two runs on one store.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from store_folder import store_folder  # noqa: E402

SKIPPED = 77


def environment(library, store):
    chosen = dict(os.environ, LD_PRELOAD=library, OPENBLAS_NUM_THREADS="1", WHET_STORE=store)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        chosen.pop(name, None)
    return chosen


def main():
    library, kind, program, *rest = sys.argv[1:]
    with store_folder() as folder:
        chosen = environment(library, os.path.join(folder, "store.db"))
        if kind in ("run", "warm"):
            for _ in range(2 if kind == "warm" else 1):
                done = subprocess.run([program, *rest], env=chosen, capture_output=True, text=True)
                print(done.stdout, done.stderr)
                if done.returncode != 0 or done.stderr:
                    return 1
            return 0
        if kind == "alone":
            for name in (os.path.basename(library), "libwhet.so"):
                shutil.copy(os.path.join(os.path.dirname(library), name), folder)
            chosen["LD_PRELOAD"] = os.path.join(folder, os.path.basename(library))
        if kind in ("note", "first", "alone"):
            # The preload is for the program, not for unshare: env sets it inside.
            inner = ["env", f"LD_PRELOAD={chosen.pop('LD_PRELOAD')}", *rest]
            outer = ["unshare", "--pid", "--fork", "--kill-child"] if kind == "first" else []
            if outer and subprocess.run([*outer, "true"], capture_output=True).returncode != 0:
                return SKIPPED
            done = subprocess.run([*outer, *inner], env=chosen, capture_output=True, text=True)
            print(done.stdout, done.stderr)
            lines = done.stderr.splitlines()
            return 0 if done.returncode == 0 and len(lines) == 1 and program in lines[0] else 1
        return exits(program, int(rest[0]), chosen)


def exits(program, runs, chosen):
    """Runs that end at once and up to 120 ms later, four at a time on one store."""
    known = subprocess.run([program, "0", "known"], env=chosen, capture_output=True, text=True)
    if known.returncode != 0:
        print(f"whet does not see the program's products\n{known.stderr}")
        return 1

    def one(run):
        arguments = [program, str(run % 60 * 2)]
        return run, subprocess.run(arguments, env=chosen, capture_output=True, text=True, timeout=100)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for run, done in pool.map(one, range(runs)):
            if done.returncode != 0 or done.stdout or done.stderr:
                print(f"run {run}: exit {done.returncode}\n{done.stdout}{done.stderr}")
                return 1
    print(f"{runs} runs ended with 0 and silence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
