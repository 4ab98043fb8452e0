"""Suffix matches: what followed where the text last ended like this (SuffixDecoding,
arXiv 2411.04975).
"""

from leapdecode.pools.suffixes import SuffixIndex
from leapdecode.sources.base import Proposals, Source, SourceContext

CANDIDATES = 3  # proposed at a node, at most
MATCHES = (1, 2, 3, 4, 6, 9, 16)  # match lengths from which on a bucket begins


def match_bucket(length: int, is_longest: bool) -> int:
    """The bucket of a match of `length` tokens; shorter matches have buckets of their own."""
    bucket = sum(length >= bound for bound in MATCHES)
    return bucket if is_longest else len(MATCHES) + bucket


def matches(index: SuffixIndex, tokens: list[int]) -> Proposals:
    """What followed the longest matches of the end of `tokens`, by their lengths."""
    return [
        (token, match_bucket(length, is_longest=place == 0))
        for place, (token, length) in enumerate(index.following(tokens, CANDIDATES))
    ]


class Suffix(Source):
    """What followed the same tokens earlier in this text."""

    name = "suffix"
    # by match length: of the longest match, then of the others
    prior = (1.2, 1.9, 2.5, 2.7, 4.0, 4.5, 5.2, 0.4, 0.3, 0.4, 0.6, 0.0, 0.0, 0.0)
    noisy_prior = (1.1, 2.2, 2.4, 3.0, 4.3, 5.1, 6.5, 0.6, 0.6, 0.3, 0.3, 0.4, 0.3, 0.4)
    noise = 0.04  # small: a match tells of one occurrence, not of a probability
    colour = "bright_green"
    option = "suffix"
    order = 1

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.index = SuffixIndex()

    def read(self, tokens: list[int]) -> None:
        self.index.add(tokens[len(self.index) :])

    def propose(self, tokens: list[int], at_root: bool) -> Proposals:
        return matches(self.index, tokens)
