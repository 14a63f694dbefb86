#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/bench/programs give the same answers as they are and under Whet, a line for a line.

usage: programs_test.py LIBRARY      (by the Python that has scikit-learn; skipped (77) without it)
"""
import importlib.util
import os
import pathlib
import subprocess
import sys

SKIPPED = 77
LINES = 40
PROGRAMS = pathlib.Path(__file__).with_name("programs")
RELATIVE = 1e-3  # of a mean; k-means and PCA iterate on f32


def answers(program, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
    environment.update(variables)
    done = subprocess.run([sys.executable, str(program)], input="".join(f"line {i % 9}\n" for i in range(LINES)),
                          env=environment, capture_output=True, text=True)
    if done.returncode != 0 or done.stderr:
        raise SystemExit(f"{program.name}: exit {done.returncode}\n{done.stderr}")
    values = [line.split() for line in done.stdout.splitlines()]
    if len(values) != LINES or not all(len(pair) == 2 and float(pair[1]) >= 0 for pair in values):
        raise SystemExit(f"{program.name}: {done.stdout}")
    return [float(value) for value, _ in values]


def main():
    if not importlib.util.find_spec("sklearn"):
        return SKIPPED
    for program in sorted(PROGRAMS.glob("*.py")):
        if program.name == "lines.py":
            continue
        expected = answers(program)
        if len(set(expected)) < 2 or expected[0] != expected[9]:
            raise SystemExit(f"{program.name}: answers do not follow their lines: {expected}")
        got = answers(program, LD_PRELOAD=sys.argv[1], WHET_STORE="none", WHET_FORCE="whet", WHET_BUDGET_CPU="1")
        for i, (value, want) in enumerate(zip(got, expected)):
            if not abs(value - want) <= RELATIVE * abs(want):
                raise SystemExit(f"{program.name}, line {i}: got {value}, expected {want}")
        print(program.name, expected[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
