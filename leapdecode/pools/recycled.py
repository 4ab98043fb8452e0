"""Token recycling: what the target found likely at every node that it evaluated, rejected or not.

Luo et al. 2024, Turning Trash into Treasure, keeps the likeliest tokens behind each token. Here
they are kept by the last two tokens as well, which knows more and covers less. RACER's copy-logit
is the list by one token, LogitSpec's last logit the list of the newest node.
"""

from leapdecode.core.buckets import bucket_of

Likeliest = list[tuple[int, float]]  # (token, probability among these), best first
Bucketed = list[tuple[int, int]]  # (token, bucket), best first


class RecycledTokens:
    """The likeliest next tokens by the last two tokens, by the last one, and at the newest node."""

    def __init__(self) -> None:
        self.by_pair: dict[tuple[int, int], Bucketed] = {}
        self.by_token: dict[int, Bucketed] = {}
        self.last: Bucketed = []

    def learn(self, before: int, token: int, likeliest: Likeliest) -> None:
        """Keep what was likely behind `token`, which stood behind `before`."""
        bucketed = [(likely, bucket_of(probability)) for likely, probability in likeliest]
        self.by_pair[before, token] = self.by_token[token] = self.last = bucketed
