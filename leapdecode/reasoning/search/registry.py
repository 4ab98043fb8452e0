"""Finds the searches: one file in this folder is one search."""

from typing import Any

from leapdecode.plugins import Registry
from leapdecode.reasoning.search.base import Search

DEFAULT = "breadth_first"
# no object of the base is made
SEARCHES = Registry("leapdecode.reasoning.search", Search, "search")  # type: ignore[type-abstract]


def names() -> list[str]:
    """Every search's name, sorted."""
    return SEARCHES.names()


def find(name: str) -> type[Search]:
    """The search called `name`; raises `UnknownName` with suggestions."""
    return SEARCHES.find(name)


def make(name: str, options: dict[str, Any]) -> Search:
    """A search with its options set; raises `UnknownName` or `OptionError`."""
    return SEARCHES.make(name, options)
