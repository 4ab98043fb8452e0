"""Finds the searches: one file in this folder is one search."""

import functools
from typing import Any

from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.plugins import find_classes
from leapdecode.reasoning.search.base import Search

DEFAULT = "breadth_first"


@functools.cache
def _searches() -> dict[str, type[Search]]:
    # no object of the base is made
    found = find_classes("leapdecode.reasoning.search", Search)  # type: ignore[type-abstract]
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Every search's name, sorted."""
    return list(_searches())


def find(name: str) -> type[Search]:
    """The search called `name`; raises `UnknownName` with suggestions."""
    if name not in _searches():
        raise UnknownName(with_suggestions(f"unknown search {name!r}", name, _searches()))
    return _searches()[name]


def make(name: str, options: dict[str, Any]) -> Search:
    """A search with its options set; raises `UnknownName` or `OptionError`."""
    search = find(name)
    known = [field.name for field in search.options()]
    for key in options:
        if key not in known:
            raise UnknownName(with_suggestions(f"{name} has no option {key!r}", key, known))
    return search(**options)
