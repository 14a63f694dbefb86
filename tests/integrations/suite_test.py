#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs tests of NumPy and SciPy themselves with libwhet_blas.so preloaded, every product through Whet.

usage: suite_test.py LIBRARY NUMERICS TESTS...      (by the Python that has the packages; TESTS as pytest takes them,
                                                     MODULE::CLASS with --pyargs)

What fails must also fail without the preload. Skipped (77) where a package is not installed.
"""
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77


class Outcome:
    """A pytest plugin: the tests that failed."""

    def __init__(self):
        self.failed, self.passed = set(), 0

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call":
            self.passed += report.passed


def whet_calls():
    library = ctypes.CDLL(None)
    if not hasattr(library, "whet_report"):
        return 0
    parts = []
    write = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(
        lambda text, length, user: parts.append(ctypes.string_at(text, length)))
    library.whet_report(b"json", write, None)
    return sum(site["calls"] for site in json.loads(b"".join(parts))["sites"])


def run_here(path, tests):
    import pytest
    outcome = Outcome()
    pytest.main(["-q", "-p", "no:cacheprovider", "-W", "ignore", "--pyargs", *tests], plugins=[outcome])
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"failed": sorted(outcome.failed), "passed": outcome.passed, "calls": whet_calls()}, file)


def run(tests, folder, **variables):
    path = os.path.join(folder, "outcome.json")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
    environment.update(OPENBLAS_NUM_THREADS="1", WHET_STORE="none", **variables)
    done = subprocess.run([sys.executable, __file__, "here", path, *tests], env=environment, cwd=folder,
                          capture_output=True, text=True)
    print(" ".join(f"{name}={value}" for name, value in variables.items()), done.stdout[-2000:], done.stderr, flush=True)
    if done.returncode != 0:
        raise SystemExit(f"pytest ended with {done.returncode}")
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    if sys.argv[1] == "here":
        return run_here(sys.argv[2], sys.argv[3:])
    library, numerics, *tests = sys.argv[1:]
    if not all(importlib.util.find_spec(name) for name in ("numpy", "scipy", "pytest", "hypothesis")):
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        got = run(tests, folder, LD_PRELOAD=library, WHET_NUMERICS=numerics, WHET_FORCE="whet", WHET_BUDGET_CPU="1")
        print(f"{got['passed']} passed, {len(got['failed'])} failed, whet saw {got['calls']} products")
        if not got["passed"] or (numerics == "invariant" and not got["calls"]):
            raise SystemExit("nothing was tested")
        if got["failed"]:
            new = set(got["failed"]) - set(run(tests, folder)["failed"])
            if new:
                raise SystemExit("fails with the preload only: " + ", ".join(sorted(new)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
