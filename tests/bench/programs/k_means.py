#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""k-means of scikit-learn: 2,000 samples of 64 features around 16 centers, from a given start."""
import numpy
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from lines import arguments, serve

options = arguments(__doc__)
centers = numpy.random.default_rng(1).standard_normal((16, 64)).astype(options.dtype) * 4


def work(random):
    samples = centers[random.integers(0, 16, 2000)] + random.standard_normal((2000, 64), dtype=options.dtype)
    model = KMeans(16, init=centers, n_init=1, max_iter=10).fit(samples)
    return model.cluster_centers_.sum(axis=1)


with threadpool_limits(1):
    serve(work)
