# SPDX-License-Identifier: Apache-2.0
"""What the programs here share: a line in, a line out, `MEAN MICROSECONDS` of the answer to that line's task.

Programs know nothing of Whet. `--f64` computes in double precision.
"""
import argparse
import sys
import time
import zlib

import numpy


def arguments(description):
    """The program's options, and the dtype that they ask for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--f64", action="store_true", help="double precision")
    options = parser.parse_args()
    options.dtype = numpy.float64 if options.f64 else numpy.float32
    return options


def serve(work):
    """Answers every line by work(generator), which returns an array; the generator depends on the line alone. Making
    the line's data counts, as a program's own work beside its products."""
    for line in sys.stdin:
        begin = time.perf_counter()
        answer = work(numpy.random.default_rng(zlib.crc32(line.rstrip("\n").encode())))
        seconds = time.perf_counter() - begin
        print(f"{numpy.mean(answer, dtype=float):.9g} {seconds * 1e6:.0f}", flush=True)
