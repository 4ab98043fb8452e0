"""Searches through reasoning trees: one file in this folder is one search."""

from leapdecode.reasoning.search.base import Limits, Search, Step
from leapdecode.reasoning.search.registry import find, make, names

__all__ = ["Limits", "Search", "Step", "find", "make", "names"]
