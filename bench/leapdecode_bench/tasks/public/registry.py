"""Finds the public sets: one file beside this file is one set."""

import functools

from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.plugins import find_classes
from leapdecode_bench.tasks.public.base import PublicSet


@functools.cache
def _sets() -> dict[str, PublicSet]:
    # no object of the base is made
    classes = find_classes("leapdecode_bench.tasks.public", PublicSet)  # type: ignore[type-abstract]
    return {name: public_set() for name, public_set in sorted(classes.items())}


def names() -> list[str]:
    """Every public set's name, sorted."""
    return list(_sets())


def find(name: str) -> PublicSet:
    """The set called `name`; raises `UnknownName` with suggestions."""
    if name not in _sets():
        raise UnknownName(with_suggestions(f"unknown public set {name!r}", name, _sets()))
    return _sets()[name]
