"""Token recycling: what the target found likely behind the same tokens before, as one tree."""

from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode.methods.sourced import Sourced
from leapdecode.sources import Source
from leapdecode.sources.pair import Pair
from leapdecode.sources.token import Token


@dataclass
class TokenRecycling(Sourced):
    name = "token_recycling"
    paper = (
        "Luo et al. 2024, Turning Trash into Treasure: Accelerating Inference of Large Language "
        "Models with Token Recycling, arXiv 2408.08696"
    )

    def sources(self) -> Sequence[type[Source]]:
        return Pair, Token
