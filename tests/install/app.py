# SPDX-License-Identifier: Apache-2.0
"""A program as anyone writes it: multiplies matrices with NumPy for some seconds; knows nothing of Whet.

usage: app.py SECONDS
"""
import sys
import time

import numpy

left = numpy.arange(24 * 192, dtype=numpy.float32).reshape(24, 192) % 7 - 3
right = numpy.arange(192 * 160, dtype=numpy.float32).reshape(192, 160) % 5 - 2
exact = left.astype(numpy.int64) @ right.astype(numpy.int64)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(200):
        product = left @ right
    if not (product == exact).all():
        sys.exit("a product is wrong")
print("every product was right")
