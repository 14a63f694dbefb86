#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs family_program over one BLAS as it is and with libwhet_blas.so preloaded, and compares every result.

usage: family_test.py LIBRARY PROGRAM f|d      (the type of the results: f32 or f64)

Left to the original, results have the same bits and wrong arguments the same words. Served by Whet, results are as
close as two orders of summation. The program itself compares how many calls Whet saw.
"""
import array
import math
import os
import subprocess
import sys
import tempfile

TINY_PRODUCT = 128 * 1024  # integrations/blas/product.hpp
MOST = 1 << 30
MOST_INVARIANT = 8000  # multiplications: the reference answers there until plans do, and is slow
# Of sums of at most 521 products of numbers below 1 (and of 2 c): 521 roundings of partial sums below 16.
# The naive BLAS sums in f64, so that in f64 both round.
TOLERANCE = {"f": 521 * 16 * 2.0 ** -24, "d": 2 * 521 * 16 * 2.0 ** -53}


def run(program, rounds, least, most, **variables):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "results")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("WHET_")}
        environment.update(OPENBLAS_NUM_THREADS="1", WHET_STORE=os.path.join(folder, "store.db"), **variables)
        done = subprocess.run([program, path, str(rounds), str(least), str(most)], env=environment, capture_output=True, text=True)
        print(" ".join(f"{name}={value}" for name, value in variables.items()), done.stderr.strip())
        if done.returncode != 0:
            raise SystemExit(f"exit {done.returncode}\n{done.stdout}")
        with open(path, "rb") as results:
            return results.read(), done.stdout


def far_apart(expected_bytes, got_bytes, element):
    expected, got = array.array(element, expected_bytes), array.array(element, got_bytes)
    if len(expected) != len(got):
        return f"{len(got)} results, expected {len(expected)}"
    for at, (one, other) in enumerate(zip(expected, got)):
        if one != other and not (math.isnan(one) and math.isnan(other)) and not abs(one - other) <= TOLERANCE[element]:
            return f"result {at}: got {other}, expected {one}"
    return None


def main():
    library, program, element = sys.argv[1:]
    expected, words = run(program, 1, 1, MOST)
    if not words:
        raise SystemExit("wrong arguments were accepted")
    got, got_words = run(program, 1, TINY_PRODUCT, MOST, LD_PRELOAD=library, WHET_FORCE="original")
    if got != expected:
        raise SystemExit(f"left to the original: other bits: {far_apart(expected, got, element)}")
    if got_words != words:
        raise SystemExit(f"left to the original: got\n{got_words}expected\n{words}")
    for numerics, rounds, least, most in (("consistent", 8, TINY_PRODUCT, MOST), ("invariant", 2, 1, MOST_INVARIANT)):
        expected, words = run(program, 1, 1, most)
        got, got_words = run(program, rounds, least, most, LD_PRELOAD=library, WHET_FORCE="whet", WHET_BUDGET_CPU="1",
                             WHET_NUMERICS=numerics)
        for start in range(0, len(got), len(expected)):
            if why := far_apart(expected, got[start:start + len(expected)], element):
                raise SystemExit(f"{numerics}: {why}")
        if got_words != words * rounds:
            raise SystemExit(f"{numerics}: got\n{got_words}expected\n{words * rounds}")
    print(f"{len(expected) // array.array(element).itemsize} results agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
