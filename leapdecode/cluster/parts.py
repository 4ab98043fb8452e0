"""Comparisons in parts, each of which any worker can do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol

from leapdecode.cluster.pool import spread


class Divisible(Protocol):
    """Work that is done record by record.

    Attributes:
        keys: of all records, in their order.
    """

    @property
    def keys(self) -> list[Any]: ...

    def part_of(self, key: Any) -> Hashable:
        """What a record belongs to; records of different parts do not depend on each other."""
        ...

    def run(self, done: set[Any]) -> Iterator[Any]:
        """Do what is missing; yields what is to be kept."""
        ...


def run(
    work: Divisible, done: set[Any], make: Callable[[], Divisible] | None = None
) -> Iterator[Any]:
    """Do what is missing of `work`: here, or with `make`, which makes the same work in a worker's
    process, on a Ray cluster. The results have the same order.
    """
    if make is None:
        yield from work.run(done)
        return
    parts: dict[Hashable, set[Any]] = {}
    for key in work.keys:
        if key not in done:
            parts.setdefault(work.part_of(key), set()).add(key)
    for results in spread(_Doing(make), parts.values()):
        yield from results


class _Doing:
    """Makes the work in a worker's process, and then does parts of it."""

    def __init__(self, make: Callable[[], Divisible]) -> None:
        self.make = make

    def __call__(self) -> Callable[[set[Any]], list[Any]]:
        work = self.make()

        def do(part: set[Any]) -> list[Any]:
            return list(work.run(set(work.keys) - part))

        return do
