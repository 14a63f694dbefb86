#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Block power iteration in NumPy: the four largest eigenvalues of a symmetric matrix of order 1,000."""
import numpy
from threadpoolctl import threadpool_limits

from lines import arguments, serve

options = arguments(__doc__)
SIZE, BLOCK, STEPS = 1000, 4, 10
basis = numpy.random.default_rng(5).standard_normal((SIZE, 8)).astype(options.dtype)
matrix = (basis * numpy.array([9, 7, 5, 3, 1, 1, 1, 1], options.dtype)) @ basis.T / SIZE


def work(random):
    vectors = random.standard_normal((SIZE, BLOCK), dtype=options.dtype)
    for _ in range(STEPS):
        vectors, _ = numpy.linalg.qr(matrix @ vectors)
    return numpy.diag(vectors.T @ (matrix @ vectors))


with threadpool_limits(1):
    serve(work)
