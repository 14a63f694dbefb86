#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program that checks its own answers, as it is and under `whet run`, and counts the calls that Whet saw.

usage: calls_test.py WHET CALLS_PER_ROUND ROUNDS PROGRAM      (the program takes the number of rounds)
"""
import json
import os
import subprocess
import sys
import tempfile


def main():
    whet, calls_per_round, rounds, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
        environment.update(OPENBLAS_NUM_THREADS="1", WHET_STORE="none")
        subprocess.run([program, "1"], env=environment, check=True)
        for force, count in (("original", int(rounds)), ("whet", int(rounds))):
            environment.update(WHET_FORCE=force, WHET_BUDGET_CPU="1")
            subprocess.run([whet, "run", "--json", report, "--", program, str(count)], env=environment, check=True)
            with open(report, encoding="utf-8") as file:
                seen = sum(site["calls"] for process in json.load(file)["processes"] for site in process["sites"])
            if seen != count * int(calls_per_round):
                raise SystemExit(f"WHET_FORCE={force}: whet saw {seen} calls, expected {count * int(calls_per_round)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
