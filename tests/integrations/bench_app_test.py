#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`whet bench app` on a program that answers lines: every state of every block is entered and left, and told apart.

usage: bench_app_test.py WHET PROGRAM
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from store_folder import store_folder  # noqa: E402

BLOCKS, REQUESTS = 6, 50


def main():
    whet, program = sys.argv[1:]
    with store_folder() as folder, tempfile.TemporaryDirectory() as results:
        lines, result = os.path.join(results, "lines.txt"), os.path.join(results, "app.json")
        with open(lines, "w", encoding="utf-8") as file:
            file.writelines("x" * (3 + i % 5) + "\n" for i in range(REQUESTS))
        chosen = dict(os.environ, OPENBLAS_NUM_THREADS="1", WHET_STORE=os.path.join(folder, "store.db"))
        command = [whet, "bench", "app", "--input", lines, "--blocks", str(BLOCKS), "--requests", str(REQUESTS),
                   "--json", result, "--", program]
        done = subprocess.run(command, env=chosen, capture_output=True, text=True, timeout=280)
        if done.returncode:
            print(f"exit {done.returncode}\n{done.stdout}{done.stderr}")
            return 1
        with open(result, encoding="utf-8") as file:
            document = json.load(file)
    expected = {"requests": document["requests"] >= BLOCKS * REQUESTS,
                "blocks of tuning": len(document["tuning_block_trials"]) == BLOCKS // 3,
                "trials": document["trials"] >= sum(document["tuning_block_trials"]) >= 0,
                "gain": document["p50"]["gain"]["low"] <= document["p50"]["gain"]["high"],
                "times": min(document[p][f"{state}_us"] for p in ("p50", "p99")
                             for state in ("original", "paused", "tuning")) > 0}
    failed = [name for name, holds in expected.items() if not holds]
    print(f"failed: {failed}\n{json.dumps(document, indent=1)}" if failed else f"{len(expected)} properties hold")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
