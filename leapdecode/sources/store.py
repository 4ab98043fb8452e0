"""Suffix matches in earlier texts: what followed the same tokens in them."""

from leapdecode.sources.base import Proposals, Source
from leapdecode.sources.suffix import Suffix, matches


class Store(Source):
    """What followed the same tokens in the texts of a store, where there is one."""

    name = "store"
    prior = Suffix.prior
    noise = Suffix.noise
    colour = "medium_purple"
    option = "suffix"
    order = 2

    def propose(self, tokens: list[int], at_root: bool) -> Proposals:
        return () if self.context.store is None else matches(self.context.store, tokens)
