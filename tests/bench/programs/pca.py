#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Principal components by scikit-learn's randomized solver: 16 of 1,000 samples with 256 features."""
import numpy
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from lines import arguments, serve

options = arguments(__doc__)
mixing = numpy.random.default_rng(2).standard_normal((16, 256)).astype(options.dtype)


def work(random):
    samples = random.standard_normal((1000, 16), dtype=options.dtype) @ mixing
    samples += random.standard_normal((1000, 256), dtype=options.dtype) * 0.1
    model = PCA(16, svd_solver="randomized", random_state=0).fit(samples)
    return model.explained_variance_ratio_


with threadpool_limits(1):
    serve(work)
