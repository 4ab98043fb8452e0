"""Medians and means with intervals that assume nothing about the distribution of a noisy machine's
times.
"""

import math
import statistics
from collections.abc import Sequence

LEVEL = 0.95
RESAMPLES = 10_000


def median_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float, float]:
    """(median, low, high): the interval between two order statistics that covers the median with at
    least `level`.

    How many of n independent values lie below the true median is binomial (n, 1/2), whatever their
    distribution. Up to five values cannot reach 95%; then the interval is their range. Raises
    ValueError for no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("an interval needs at least one value")
    count = len(ordered)
    left_out = 0
    missed = 0.0
    for below in range(count // 2):
        missed += 2 * math.comb(count, below) / 2**count
        if missed > 1 - level:
            break
        left_out = below
    return statistics.median(ordered), ordered[left_out], ordered[count - 1 - left_out]


def mean_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float, float]:
    """(mean, low, high): the percentile bootstrap, whose resamples are the same in every call.

    It covers the mean of values that are independent of each other, roughly for few of them. Raises
    ValueError for no values.
    """
    if not values:
        raise ValueError("an interval needs at least one value")
    mean = statistics.mean(values)
    if len(values) < 2:  # nothing to draw from
        return mean, mean, mean
    import numpy as np
    from scipy.stats import bootstrap

    options = {"n_resamples": RESAMPLES, "confidence_level": level, "method": "percentile"}
    low, high = bootstrap((values,), np.mean, rng=0, **options).confidence_interval
    return mean, float(low), float(high)
