"""Token Recycling: what the target found likely behind the same token (Luo et al. 2024,
arXiv 2408.08696; the copy-logit of RACER).
"""

from leapdecode.sources.base import Proposals, Source


class Token(Source):
    """What was likely behind the last token when it was last evaluated."""

    name = "token"
    # by probability, the greatest first
    prior = (2.2, 1.9, 2.0, 1.8, 1.0, 0.7, 0.2, 0.0, -0.1, -0.3, -1.3)
    noisy_prior = (3.2, 3.2, 3.0, 2.7, 2.2, 1.8, 1.4, 1.1, 1.0, 1.0, 0.5)
    noise = 0.4
    colour = "bright_cyan"
    option = "recycling"
    recycles = True
    order = 4

    def propose(self, tokens: list[int], at_root: bool) -> Proposals:
        return self.context.recycled.by_token.get(tokens[-1], ())
