"""Extrapolation: what the model's hidden states tell of the next tokens, as one tree."""

from collections.abc import Iterable
from dataclasses import dataclass

from leapdecode.methods.sourced import Sourced


@dataclass
class Extrapolation(Sourced):
    name = "extrapolation"
    paper = (
        "after EAGLE, Li et al. 2024, arXiv 2401.15077: kriging of hidden states, without training"
    )

    def columns(self) -> Iterable[str]:
        return ("extrapolated",)
