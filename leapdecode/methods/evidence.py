"""The chance that a guess is right, from all sources that name it: online logistic regression.

A candidate's evidence is one bucket of every source that names it: how long the suffix match was,
how probable the token was where it was recycled, and so on. With a bias and a weight per source and
bucket,

    chance = 1 / (1 + exp(-(bias + sum of weights))),

and a step moves the bias and each weight by `RATE` times the error, hit - chance. They start at the
sources' priors, which were fitted to texts of a real model and of the embedded pair, so that the
first tokens of a first text are guessed well, too.

Under seeded sampling the noise of a position is known before the target's probabilities are. With
Gumbel noise g a token of probability p is drawn with chance exp(-exp(-(logit p + g))): the greatest
of the others' perturbed log-probabilities has a Gumbel law about log(1 - p). So noise is evidence
that adds to the log-odds, beside every source that says how probable the token is. As each knows p
roughly alone, it adds less than itself for each,

    source.noise * (g - USUAL),

which was fitted, too, and the weights start elsewhere than where there is no noise.

A draft draws with the same noise, so the token that it chooses is likelier still to be the
target's. That choice is evidence of its own kind, in place of all other, and its chance is learnt
as it is, noise included.
"""

import math

from leapdecode.sources.base import Source

RATE = 0.05
USUAL = 4.1  # the noise that adds nothing
LIMIT = 8.0  # of the sum of weights
BIAS = -3.7
Evidence = list[int]  # places of weights, one for each source that names a candidate


class Chances:
    """The bias, the weights of every source's buckets, and the chance that they give evidence.

    Args:
        noisy: whether weights start as they were fitted beside known noise.
    """

    def __init__(self, noisy: bool = False) -> None:
        self.noisy = noisy
        self.bias = BIAS
        self.weights: list[float] = []
        self.noises: list[float] = []  # by place, what the noise is multiplied with
        self.labels: list[str] = []  # by place, the source as results name it
        self.bases: dict[str, int] = {}  # by source

    def base_of(self, source: type[Source]) -> int:
        """Base + bucket is the place of a weight of `source`, which joins when first asked for."""
        if source.name not in self.bases:
            self.bases[source.name] = len(self.weights) - 1  # the first bucket is 1
            weights = (self.noisy and source.noisy_prior) or source.prior
            self.weights += weights
            self.noises += [source.noise] * len(weights)
            self.labels += [source.label or source.name] * len(weights)
        return self.bases[source.name]

    def of(self, evidence: Evidence, noise: float = USUAL) -> float:
        """The chance that a candidate is the target's choice, given that its parent is."""
        log_odds = self.bias
        weights = self.weights
        for place in evidence:
            log_odds += weights[place]
        excess = noise - USUAL
        if excess:
            for place in evidence:
                log_odds += self.noises[place] * excess
        log_odds = max(-LIMIT, min(LIMIT, log_odds))
        return 1.0 / (1.0 + math.exp(-log_odds))

    def learn(self, evidence: Evidence, hit: bool, noise: float = USUAL) -> None:
        """Take in whether a candidate was the target's choice."""
        step = RATE * (hit - self.of(evidence, noise))
        self.bias += step
        for place in evidence:
            self.weights[place] += step

    def source(self, evidence: Evidence) -> str:
        """The source that speaks most for a candidate, as results name it."""
        return self.labels[max(evidence, key=self.weights.__getitem__)]
