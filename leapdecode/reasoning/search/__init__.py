"""Searches through reasoning trees: one file in this folder is one search."""

from leapdecode.plugins import Registry
from leapdecode.reasoning.search.base import Limits, Search, Step

DEFAULT = "breadth_first"
# no object of the base is made
SEARCHES = Registry(__name__, Search, "search")  # type: ignore[type-abstract]
names = SEARCHES.names
find = SEARCHES.find
make = SEARCHES.make

__all__ = ["DEFAULT", "Limits", "Search", "Step", "find", "make", "names"]
