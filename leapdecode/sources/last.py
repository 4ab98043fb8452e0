"""Last logit: what the target found likely in place of the pending token (LogitSpec)."""

from leapdecode.sources.base import Proposals, Source


class Last(Source):
    """The alternatives of the pending token, which are often what follows it."""

    name = "last"
    # by probability, the greatest first
    prior = (-0.8, -0.4, -0.2, 0.0, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0)
    noisy_prior = (0.1, 0.8, 1.0, 1.1, 0.9, 0.4, 0.2, 0.4, 0.5, 0.6, 1.0)
    noise = 0.12
    colour = "bright_red"
    option = "last"
    recycles = True
    order = 5

    def propose(self, tokens: list[int], at_root: bool) -> Proposals:
        return self.context.recycled.last if at_root else ()
