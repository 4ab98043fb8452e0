"""Finds the public sets: one file beside this file is one set."""

from leapdecode.plugins import Registry
from leapdecode_bench.tasks.public.base import PublicSet

# no object of the base is made
SETS = Registry("leapdecode_bench.tasks.public", PublicSet, "public set")  # type: ignore[type-abstract]
names = SETS.names


def find(name: str) -> PublicSet:
    """The set called `name`; raises `UnknownName` with suggestions."""
    return SETS.instance(name)
