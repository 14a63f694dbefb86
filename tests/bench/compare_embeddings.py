#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two files of embeddings (embed.py --save): prints the largest cosine distance; fails above 1e-5.

usage: compare_embeddings.py A.npy B.npy
"""
import sys

import numpy

LARGEST = 1e-5


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    a, b = (numpy.load(path).astype(numpy.float64) for path in sys.argv[1:])
    if a.shape != b.shape:
        sys.exit(f"shapes differ: {a.shape} and {b.shape}")
    cosine = (a * b).sum(1) / (numpy.linalg.norm(a, axis=1) * numpy.linalg.norm(b, axis=1))
    distance = float((1 - cosine).max())
    print(f"{len(a)} embeddings, largest cosine distance {distance:.3g}")
    if not distance <= LARGEST:
        sys.exit(f"above {LARGEST}")


if __name__ == "__main__":
    main()
