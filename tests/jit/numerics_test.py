# SPDX-License-Identifier: Apache-2.0
"""Compares the bits of plans with numerics.py, and both with digests that every machine must reproduce.

usage: numerics_test.py NUMERICS_CASES ISA
"""
import pathlib
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import numerics

# sha256 of the results, first 16 digits (numerics version 1).
DIGESTS = {"matmul": "822196607c9a6222", "matmul_f64": "245fd337a886fa60", "conv": "9d704dd8ce4efaf6", "conv_transpose": "f02503cac3de31d8"}
SKIPPED = 77


def expected():
    f, f64 = numerics.fixed_input, numerics.f64
    return {
        "matmul": numerics.matmul(f((5, 1100), 1), f((1100, 9), 2), f((5, 9), 3), 0.5, 2.0),
        "matmul_f64": numerics.matmul(f((5, 1100), 1, f64), f((1100, 9), 2, f64), f((5, 9), 3, f64), 0.1, -1.7),
        "conv": numerics.conv(f((1, 130, 4, 5), 4), f((3, 130, 3, 3), 5), f((3,), 6), stride=2, padding=1),
        "conv_transpose": numerics.conv_transpose(f((1, 6, 3, 4), 8), f((6, 2, 4, 4), 9), stride=2, padding=1),
    }


def main():
    program, isa = sys.argv[1:]
    run = subprocess.run([program, isa], capture_output=True, text=True)
    if run.returncode == SKIPPED:
        print(f"skipped: this CPU has no {isa}")
        return SKIPPED
    if run.returncode != 0:
        print(run.stderr)
        return 1
    oracle, failures, seen = expected(), 0, set()
    for name, value in oracle.items():
        if numerics.digest(value) != DIGESTS[name]:
            print(f"{name}: numerics.py gives {numerics.digest(value)}, committed {DIGESTS[name]}")
            failures += 1
    for line in run.stdout.splitlines():
        name, schedule, bits = line.split("|")
        word = np.uint64 if oracle[name].dtype == np.float64 else np.uint32
        digits = 2 * np.dtype(word).itemsize
        got = np.array([int(bits[i:i + digits], 16) for i in range(0, len(bits), digits)], word)
        want = np.ascontiguousarray(oracle[name]).view(word).reshape(-1)
        seen.add(name)
        if not np.array_equal(got, want):
            failures += 1
            print(f"{name} on {isa}: {int((got != want).sum())} of {want.size} differ under {schedule}")
    if seen != set(oracle):
        print(f"cases missing: {set(oracle) - seen}")
        failures += 1
    print(f"{len(run.stdout.splitlines())} plans on {isa}, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
