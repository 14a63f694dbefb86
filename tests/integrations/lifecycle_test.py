#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that loads a library of Whet by dlopen, lets go of it, forks or leaves its folder at the worst moments, and ends
with its own status.

usage: lifecycle_test.py PROGRAM LIBRARY MOMENT RUNS
"""
import concurrent.futures
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from store_folder import store_folder  # noqa: E402

HOST_STATUS = 7
AT_ONCE = 4


def main():
    program, library, moment, runs = sys.argv[1:]
    with store_folder() as folder:
        def one(run):
            # Every other run is alone with its store; the rest meet what their neighbours found.
            store = "shared.db" if run % 2 else f"{run}.db"
            chosen = dict(os.environ, OPENBLAS_NUM_THREADS="1", WHET_STORE=os.path.join(folder, store))
            folder_of, name = os.path.split(library)
            moves = moment == "moved"
            command = [program, os.path.join(".", name) if moves else library, moment]
            done = subprocess.run(command, env=chosen, capture_output=True, text=True, timeout=280,
                                  cwd=folder_of if moves else None)
            return run, done

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for run, done in pool.map(one, range(int(runs))):
                if done.returncode != HOST_STATUS or done.stdout or done.stderr:
                    print(f"run {run}: exit {done.returncode}\n{done.stdout}{done.stderr}")
                    return 1
    print(f"{runs} runs ended with the host's status and silence")
    return 0


if __name__ == "__main__":
    sys.exit(main())
