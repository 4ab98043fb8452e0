"""Token recycling: what the target found likely behind the same tokens before, as one tree."""

from collections.abc import Iterable
from dataclasses import dataclass

from leapdecode.methods.sourced import Sourced


@dataclass
class TokenRecycling(Sourced):
    name = "token_recycling"
    paper = (
        "Luo et al. 2024, Turning Trash into Treasure: Accelerating Inference of Large Language "
        "Models with Token Recycling, arXiv 2408.08696"
    )

    def columns(self) -> Iterable[str]:
        return "pair", "token"
