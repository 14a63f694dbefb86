#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs with libwhet_blas.so preloaded.

usage: preload_test.py LIBRARY exit PROGRAM RUNS | run PROGRAM [ARGUMENT...]

`exit`: RUNS runs must end with 0 and write nothing. `run`: one run must end with 0; its output is shown.
"""
import os
import subprocess
import sys
import tempfile


def environment(library, store):
    chosen = dict(os.environ, LD_PRELOAD=library, OPENBLAS_NUM_THREADS="1", WHET_STORE=store)
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        chosen.pop(name, None)
    return chosen


def main():
    library, kind, program, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        chosen = environment(library, os.path.join(folder, "store.db"))
        if kind == "run":
            done = subprocess.run([program, *rest], env=chosen, capture_output=True, text=True)
            print(done.stdout, done.stderr)
            return 0 if done.returncode == 0 and not done.stderr else 1
        for run in range(int(rest[0])):
            done = subprocess.run([program], env=chosen, capture_output=True, text=True)
            if done.returncode != 0 or done.stdout or done.stderr:
                print(f"run {run}: exit {done.returncode}\n{done.stdout}{done.stderr}")
                return 1
        print(f"{rest[0]} runs ended with 0 and silence")
        return 0


if __name__ == "__main__":
    sys.exit(main())
