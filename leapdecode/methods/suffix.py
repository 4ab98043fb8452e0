"""Suffix matches: what followed wherever the text ended like this before, as one tree."""

from collections.abc import Sequence
from dataclasses import dataclass

from leapdecode.methods.base import option
from leapdecode.methods.sourced import Sourced
from leapdecode.sources import Source, store, suffix


@dataclass
class Suffix(Sourced):
    name = "suffix"
    paper = "Oliaro et al. 2024, SuffixDecoding, arXiv 2411.04975"
    takes_store = True

    history: bool = option(False, "keep the texts for later ones of the same LLM and options")

    def sources(self) -> Sequence[type[Source]]:
        return suffix.Suffix, store.Store
