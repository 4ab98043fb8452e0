"""The chance that a guess is right, from all sources that name it: logistic regression, online.

A candidate's evidence is one bucket per column: how long the suffix match was, how probable the
token was where it was recycled, and so on; 0 where a source does not name it. With a weight per
column and bucket,

    chance = 1 / (1 + exp(-sum of weights)),

and a step moves each weight by `RATE` times the error, hit - chance. Under seeded sampling the
noise of a position is known before the target's probabilities are. With Gumbel noise g a token of
probability c is drawn with probability exp(-(1 - c) / c * exp(-g)): the greatest of the others'
perturbed log-probabilities has a Gumbel law about log(1 - c).
"""

import math

from leapdecode.core.buckets import BUCKETS

RATE = 0.05
LIMIT = 8.0  # of the sum of weights
MATCHES = (1, 2, 3, 4, 6, 9, 16)  # match lengths from which on a bucket begins
LATER = len(MATCHES)  # added to the bucket of a match that is not the first
# column -> weights by bucket
COLUMNS = {
    "suffix": [0.0] * (2 * LATER + 1),
    "pair": [0.0] * BUCKETS,
    "token": [0.0] * BUCKETS,
    "last": [0.0] * BUCKETS,
    "store": [0.0] * (2 * LATER + 1),
    "draft": [0.0] * BUCKETS,
}
NAMES = tuple(COLUMNS)
DRAFT = NAMES.index("draft")
Evidence = list[int]  # a bucket per column


def match_bucket(length: int, first: bool) -> int:
    """The bucket of a match of `length` tokens; that of later candidates is another one."""
    bucket = sum(length >= bound for bound in MATCHES)
    return bucket if first else LATER + bucket


class Chances:
    """Weights of every column, and what they make of evidence."""

    def __init__(self) -> None:
        self.weights = [list(weights) for weights in COLUMNS.values()]

    def of(self, evidence: Evidence) -> float:
        """The chance that a candidate is the target's choice, given that its parent is."""
        total = 0.0
        for weights, bucket in zip(self.weights, evidence, strict=True):
            total += weights[bucket]
        return 1.0 / (1.0 + math.exp(-max(min(total, LIMIT), -LIMIT)))

    def learn(self, evidence: Evidence, hit: bool) -> None:
        """Take in whether a candidate was the target's choice."""
        step = RATE * (hit - self.of(evidence))
        for weights, bucket in zip(self.weights, evidence, strict=True):
            weights[bucket] += step

    def source(self, evidence: Evidence) -> str:
        """The column that speaks most for a candidate."""
        found, best = NAMES[0], -math.inf
        for name, weights, bucket in zip(NAMES, self.weights, evidence, strict=True):
            gain = weights[bucket] - weights[0]
            if bucket and gain > best:
                found, best = name, gain
        return found


def sharpened(chance: float, noise: float) -> float:
    """The chance of a token whose Gumbel noise is known, see the head of this file."""
    return math.exp(-(1 - chance) / chance * math.exp(-noise))
