"""Extrapolation: what the model's last hidden state tells of the token after next, as one tree."""

from collections.abc import Iterable
from dataclasses import dataclass

from leapdecode.methods.sourced import Sourced


@dataclass
class Extrapolation(Sourced):
    name = "extrapolation"
    paper = "after EAGLE, Li et al. 2024, arXiv 2401.15077: a linear map, fitted without training"

    def columns(self) -> Iterable[str]:
        return ("extrapolated",)
