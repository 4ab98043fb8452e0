"""Probabilities in a few buckets, as sources of guesses keep them."""

import bisect

# a probability's bucket: 1 above the first bound, 2 above the second, ...; 11 below all
BOUNDS = (0.95, 0.82, 0.61, 0.37, 0.18, 0.08, 0.03, 0.007, 0.002, 0.0005)
BUCKETS = len(BOUNDS) + 2  # with 0, for what is not known
_ASCENDING = tuple(-bound for bound in BOUNDS)


def bucket_of(probability: float) -> int:
    """1 for the most probable, up to `BUCKETS` - 1."""
    return 1 + bisect.bisect_left(_ASCENDING, -probability)
