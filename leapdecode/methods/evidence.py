"""The chance that a guess is right, from all sources that name it: logistic regression, online.

A candidate's evidence is one bucket per column: how long the suffix match was, how probable the
token was where it was recycled, and so on; 0 where a source does not name it. With a bias and a
weight per column and bucket,

    chance = 1 / (1 + exp(-(bias + sum of weights))),

and a step moves the bias and each weight by `RATE` times the error, hit - chance. They start as
they were fitted to texts of a real model and of the embedded pair, so that the first tokens of a
first text are guessed well, too.

Under seeded sampling the noise of a position is known before the target's probabilities are. With
Gumbel noise g a token of probability c is drawn with probability exp(-(1 - c) / c * exp(-g)): the
greatest of the others' perturbed log-probabilities has a Gumbel law about log(1 - c).
"""

import math

from leapdecode.core.buckets import BUCKETS

RATE = 0.05
LIMIT = 8.0  # of the sum of weights
MATCHES = (1, 2, 3, 4, 6, 9, 16)  # match lengths from which on a bucket begins
LATER = len(MATCHES)  # added to the bucket of a match that is not the first
BIAS = -3.1
# one weight per bucket of match lengths, for the longest match and for later ones
MATCHED = [0.0, 0.8, 1.7, 1.7, 2.4, 3.0, 3.1, 3.3, 0.1, 0.4, 0.0, 0.5, 0.0, 0.0, 0.0]
# column -> weights by bucket
COLUMNS = {
    "suffix": MATCHED,
    "pair": [0.0, 1.2, 1.3, 1.0, 0.6, 0.4, 0.1, -0.3, -0.7, -0.9],
    "token": [0.0, 2.4, 1.8, 1.8, 1.5, 1.0, 0.5, -0.2, -0.5, -0.6],
    "last": [0.0] + [-0.4] * (BUCKETS - 1),
    "store": MATCHED,
    "draft": [0.0, 4.8, 1.9, 1.5, 1.5, 1.2, 0.3, -0.4, -0.7, -2.6],
}
NAMES = tuple(COLUMNS)
DRAFT = NAMES.index("draft")
Evidence = list[int]  # a bucket per column


def match_bucket(length: int, first: bool) -> int:
    """The bucket of a match of `length` tokens; that of later candidates is another one."""
    bucket = sum(length >= bound for bound in MATCHES)
    return bucket if first else LATER + bucket


class Chances:
    """The bias, the weights of every column, and what they make of evidence."""

    def __init__(self) -> None:
        self.bias = BIAS
        self.weights = [list(weights) for weights in COLUMNS.values()]

    def of(self, evidence: Evidence) -> float:
        """The chance that a candidate is the target's choice, given that its parent is."""
        total = self.bias
        for weights, bucket in zip(self.weights, evidence, strict=True):
            total += weights[bucket]
        return 1.0 / (1.0 + math.exp(-max(min(total, LIMIT), -LIMIT)))

    def learn(self, evidence: Evidence, hit: bool) -> None:
        """Take in whether a candidate was the target's choice."""
        step = RATE * (hit - self.of(evidence))
        self.bias += step
        for weights, bucket in zip(self.weights, evidence, strict=True):
            if bucket:
                weights[bucket] += step

    def source(self, evidence: Evidence) -> str:
        """The column that speaks most for a candidate."""
        found, best = NAMES[0], -math.inf
        for name, weights, bucket in zip(NAMES, self.weights, evidence, strict=True):
            if bucket and weights[bucket] > best:
                found, best = name, weights[bucket]
        return found


def sharpened(chance: float, noise: float) -> float:
    """The chance of a token whose Gumbel noise is known, see the head of this file."""
    return math.exp(-(1 - chance) / chance * math.exp(-noise))
