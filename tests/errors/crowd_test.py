#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with threads, forks, children and signals under the preload: it ends with its own status and silence.

usage: crowd_test.py LIBRARY PROGRAM WORD...    (see crowd_program.c; SEED is replaced by a seed that is printed)
"""
import os
import subprocess
import sys

from bad_day import HOST_STATUS, environment, store_folder

SEED = 20261201


def main():
    library, program, *words = sys.argv[1:]
    seed = os.environ.get("SEED", str(SEED))
    words = [seed if word == "SEED" else word for word in words]
    print(f"seed {seed}")
    with store_folder() as folder:
        for forge in ("process", "thread"):
            chosen = environment(library, {"WHET_FORCE": "whet", "WHET_BUDGET_CPU": "1", "WHET_FORGE": forge,
                                           "WHET_STORE": os.path.join(folder, forge, "store.db")})
            done = subprocess.run([program, *words], env=chosen, capture_output=True, text=True, check=False)
            if done.returncode != HOST_STATUS or done.stdout or done.stderr:
                print(f"{forge}: exit {done.returncode}, expected {HOST_STATUS} and silence\n{done.stdout}{done.stderr}")
                return 1
    print(f"{' '.join(words)}: as without whet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
