#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""k-nearest neighbours of scikit-learn by brute force: 200 queries among 4,000 samples of 64 features."""
import numpy
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from lines import arguments, serve

options = arguments(__doc__)
known = numpy.random.default_rng(4).standard_normal((4000, 64)).astype(options.dtype)
model = NearestNeighbors(n_neighbors=5, algorithm="brute").fit(known)


def work(random):
    distances, _ = model.kneighbors(random.standard_normal((200, 64), dtype=options.dtype))
    return distances.mean(axis=1)


with threadpool_limits(1):
    serve(work)
