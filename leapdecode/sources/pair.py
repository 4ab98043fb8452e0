"""Token Recycling by two tokens: what the target found likely behind the same pair of tokens."""

from leapdecode.sources.base import Proposals, Source


class Pair(Source):
    """Knows more than `token`, and covers less of the text."""

    name = "pair"
    # by probability, the greatest first
    prior = (0.3, 0.8, 0.2, 0.0, -0.1, -0.3, -0.4, -0.4, -0.4, -0.5, -0.9)
    noisy_prior = (1.2, 1.2, 0.5, 0.3, 0.3, 0.3, 0.1, 0.0, -0.3, -1.1, -1.1)
    noise = 0.11
    colour = "bright_magenta"
    option = "recycling"
    recycles = True
    order = 3

    def propose(self, tokens: list[int], at_root: bool) -> Proposals:
        return self.context.recycled.by_pair.get((tokens[-2], tokens[-1]), ())
