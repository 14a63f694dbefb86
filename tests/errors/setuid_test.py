#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program with more rights than its caller: nothing is tuned, and no variable makes it open or write a file.

usage: setuid_test.py LIBRARY PROGRAM    (lifecycle_program, which loads LIBRARY by its path)
"""
import os
import shutil
import subprocess
import sys

from bad_day import HOST_STATUS, SKIPPED, environment, store_folder

OTHER = 65534  # a user without rights


def main():
    library, program = sys.argv[1:]
    if os.geteuid() != 0:
        print("only root can make a file another user's")
        return SKIPPED
    with store_folder() as folder:
        os.chmod(folder, 0o777)
        copy = os.path.join(folder, "program")
        shutil.copy(program, copy)
        os.chown(copy, OTHER, OTHER)
        os.chmod(copy, 0o4755)
        written = {"WHET_STORE": "store.db", "WHET_LOG_FILE": "log", "WHET_DUMP": "dump", "WHET_CONTROL": "page"}
        changes = {name: os.path.join(folder, file) for name, file in written.items()}
        with open(changes["WHET_CONTROL"], "w", encoding="utf-8"):
            os.chmod(changes["WHET_CONTROL"], 0o666)
        chosen = environment(None, {**changes, "WHET_LOG": "debug", "WHET_TEST_HOOKS": "1", "WHET_FORCE": "whet"})
        before = sorted(os.listdir(folder))
        done = subprocess.run([copy, library, "called"], env=chosen, capture_output=True, text=True, check=False)
        lines = done.stderr.splitlines()
        if "cannot open shared object" in done.stdout or "Permission denied" in done.stdout:
            print("the libraries are not for another user here")
            return SKIPPED
        if done.returncode != HOST_STATUS or done.stdout or len(lines) != 1 or "a setuid program: untuned" not in lines[0]:
            print(f"exit {done.returncode}, expected {HOST_STATUS} and one line\n{done.stdout}{done.stderr}")
            return 1
        if sorted(os.listdir(folder)) != before or os.path.getsize(changes["WHET_CONTROL"]):
            print(f"it made files: {os.listdir(folder)}")
            return 1
    print("a setuid program is left alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
