"""Bigrams of the model itself: what it says behind a single token, as one tree."""

from collections.abc import Iterable
from dataclasses import dataclass

from leapdecode.methods.sourced import Sourced


@dataclass
class BigramTrees(Sourced):
    name = "bigrams"
    paper = "Stewart et al. 2024, The N-Grammys, arXiv 2411.03786"

    def columns(self) -> Iterable[str]:
        return ("bigram",)
