#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program of python_programs.py as it is and with libwhet_blas.so preloaded, and compares its answers.

usage: program_test.py LIBRARY PROGRAM      (by the Python that has the program's packages)

Left to the original, answers have the same bits; served by Whet, they agree to rounding. Skipped (77) where the
program's packages are not installed.
"""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

SKIPPED = 77
# Sums of up to 620 products of standard normal numbers: 620 roundings of partial sums below about 100.
RELATIVE, ABSOLUTE = 1e-4, 2e-3
RELATIVE_F64, ABSOLUTE_F64 = 1e-12, 1e-11  # of steps whose name begins with f64


def run(folder, library, program, *more, **variables):
    path = os.path.join(folder, f"{len(os.listdir(folder))}.npz")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
    environment.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", WHET_STORE="none", **variables)
    if variables:
        environment["LD_PRELOAD"] = library
    command = [sys.executable, str(pathlib.Path(__file__).with_name("python_programs.py")), program, path, *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    print(" ".join(f"{name}={value}" for name, value in variables.items()), done.stdout.strip(), flush=True)
    if done.returncode != 0 or done.stderr:
        raise SystemExit(f"exit {done.returncode}\n{done.stderr}")
    return path


def main():
    library, program = sys.argv[1:]
    if not all(importlib.util.find_spec(name) for name in ("numpy", program)):
        return SKIPPED
    import numpy as np
    with tempfile.TemporaryDirectory() as folder:
        expected = np.load(run(folder, library, program))

        def close(got, want, name):
            relative, absolute = (RELATIVE_F64, ABSOLUTE_F64) if name.startswith("f64") else (RELATIVE, ABSOLUTE)
            return np.allclose(got, want, rtol=relative, atol=absolute, equal_nan=True)

        def check(path, agree):
            for key, answer in np.load(path).items():
                name = key.partition(" ")[2]
                want = expected["first " + name]
                if not agree(answer, want, name):
                    raise SystemExit(f"{key}: got {answer}, expected {want}")

        check(run(folder, library, program, WHET_FORCE="original"),
              lambda got, want, name: np.array_equal(got, want, equal_nan=got.dtype.kind == "f"))
        check(run(folder, library, program, "served", WHET_FORCE="whet", WHET_BUDGET_CPU="1"),
              close)
    return 0


if __name__ == "__main__":
    sys.exit(main())
