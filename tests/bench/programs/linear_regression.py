#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Linear regression of scikit-learn: 1,000 samples, 96 features, 32 targets; and its predictions for 2,000."""
import numpy
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_limits

from lines import arguments, serve

options = arguments(__doc__)
truth = numpy.random.default_rng(3).standard_normal((96, 32)).astype(options.dtype)


def work(random):
    samples = random.standard_normal((1000, 96), dtype=options.dtype)
    targets = samples @ truth + random.standard_normal((1000, 32), dtype=options.dtype) * 0.1
    model = LinearRegression().fit(samples, targets)
    return numpy.square(model.predict(random.standard_normal((2000, 96), dtype=options.dtype)))


with threadpool_limits(1):
    serve(work)
