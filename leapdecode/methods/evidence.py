"""The chance that a guess is right, from all sources that name it: logistic regression, online.

A candidate's evidence is a bucket of every column that names it: how long the suffix match was, how
probable the token was where it was recycled, and so on. With a bias and a weight per column and
bucket,

    chance = 1 / (1 + exp(-(bias + sum of weights))),

and a step moves the bias and each weight by `RATE` times the error, hit - chance. They start as
they were fitted to texts of a real model and of the embedded pair, so that the first tokens of a
first text are guessed well, too.

Under seeded sampling the noise of a position is known before the target's probabilities are. With
Gumbel noise g a token of probability p is drawn with chance exp(-exp(-(logit p + g))): the greatest
of the others' perturbed log-probabilities has a Gumbel law about log(1 - p). So noise is evidence
that adds to the log-odds, beside every column that says how probable the token is. As each knows p
roughly alone, it adds less than itself for each,

    NOISE[column] * (g - USUAL),

which was fitted, too, and other weights are learnt beside it than where there is none.

A draft draws with the same noise, so the token that it chooses is likelier still to be the
target's. That choice is evidence of its own kind, in place of all other, and its chance is learnt
as it is, noise included.
"""

import math

RATE = 0.05
USUAL = 4.1  # the noise that adds nothing
LIMIT = 8.0  # of the sum of weights
MATCHES = (1, 2, 3, 4, 6, 9, 16)  # match lengths from which on a bucket begins
LATER = len(MATCHES)  # added to the bucket of a match that is not the first
BIAS = -3.7
# by bucket of match lengths: for the longest match, then for later ones
MATCHED = [1.2, 1.9, 2.5, 2.7, 4.0, 4.5, 5.2, 0.4, 0.3, 0.4, 0.6, 0.0, 0.0, 0.0]
# column -> weights of its buckets, the first of which is 1
COLUMNS = {
    "suffix": MATCHED,
    "pair": [0.3, 0.8, 0.2, 0.0, -0.1, -0.3, -0.4, -0.4, -0.4, -0.5, -0.9],
    "token": [2.2, 1.9, 2.0, 1.8, 1.0, 0.7, 0.2, 0.0, -0.1, -0.3, -1.3],
    "last": [-0.8, -0.4, -0.2, 0.0, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0],
    "store": MATCHED,
    "draft": [5.9, 2.6, 1.9, 1.9, 1.6, 0.5, -0.3, -0.7, -1.5, -2.2, -3.0],
    # what a draft drew with the target's noise, by the probability that it drew it with
    "draw": [7.2, 5.6, 5.2, 4.8, 4.5, 4.2, 3.9, 3.6, 3.2, 2.8, 2.4],
    # by depth; the last is that of guesses which no forward has updated yet
    "window": [5.6, 5.2, 4.9, 4.7, 4.5, 4.3, 4.1, 3.9, -1.4],
}
# the same beside known noise
NOISY = {
    "suffix": [1.1, 2.2, 2.4, 3.0, 4.3, 5.1, 6.5, 0.6, 0.6, 0.3, 0.3, 0.4, 0.3, 0.4],
    "pair": [1.2, 1.2, 0.5, 0.3, 0.3, 0.3, 0.1, 0.0, -0.3, -1.1, -1.1],
    "token": [3.2, 3.2, 3.0, 2.7, 2.2, 1.8, 1.4, 1.1, 1.0, 1.0, 0.5],
    "last": [0.1, 0.8, 1.0, 1.1, 0.9, 0.4, 0.2, 0.4, 0.5, 0.6, 1.0],
}
# by column the noise's weight; a suffix match tells of one occurrence, not of a probability
NOISE = {
    "suffix": 0.04, "pair": 0.11, "token": 0.4, "last": 0.12, "store": 0.04,
    "draft": 0.38, "draw": 0.0, "window": 0.38,
}  # fmt: skip
NAMES = [name for name, weights in COLUMNS.items() for _ in weights]  # by place of a weight
NOISES = [NOISE[name] for name in NAMES]
Evidence = list[int]  # places of weights, one for each column that names a candidate


def place_of(column: str) -> int:
    """What, added to a bucket of a column, is the place of its weight."""
    return NAMES.index(column) - 1


def match_bucket(length: int, first: bool) -> int:
    """The bucket of a match of `length` tokens; that of later candidates is another one."""
    bucket = sum(length >= bound for bound in MATCHES)
    return bucket if first else LATER + bucket


class Chances:
    """The bias, the weights of every column, and what they make of evidence.

    Args:
        noisy: whether they are to begin as they were fitted beside known noise.
    """

    def __init__(self, noisy: bool = False) -> None:
        columns = COLUMNS | (NOISY if noisy else {})
        self.bias = BIAS
        self.weights = [weight for weights in columns.values() for weight in weights]

    def of(self, evidence: Evidence, noise: float = USUAL) -> float:
        """The chance that a candidate is the target's choice, given that its parent is."""
        total, weights, more = self.bias, self.weights, noise - USUAL
        for place in evidence:
            total += weights[place]
        if more:
            for place in evidence:
                total += NOISES[place] * more
        if abs(total) > LIMIT:
            total = math.copysign(LIMIT, total)
        return 1.0 / (1.0 + math.exp(-total))

    def learn(self, evidence: Evidence, hit: bool, noise: float = USUAL) -> None:
        """Take in whether a candidate was the target's choice."""
        step = RATE * (hit - self.of(evidence, noise))
        self.bias += step
        for place in evidence:
            self.weights[place] += step

    def source(self, evidence: Evidence) -> str:
        """The column that speaks most for a candidate; a draft's draws are the draft's."""
        name = NAMES[max(evidence, key=self.weights.__getitem__)]
        return "draft" if name == "draw" else name
