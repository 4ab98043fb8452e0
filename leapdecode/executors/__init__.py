"""Who runs the pending forwards of many sequences, when, and in which batch."""

from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.executors.batched import Batched
from leapdecode.executors.single import Single

EXECUTORS = {"single": Single, "batched": Batched}


def find_executor(name: str) -> type[Single] | type[Batched]:
    """The executor called `name`; raises `UnknownName` with suggestions."""
    if name not in EXECUTORS:
        raise UnknownName(with_suggestions(f"unknown executor {name!r}", name, EXECUTORS))
    return EXECUTORS[name]


__all__ = ["EXECUTORS", "Batched", "Single", "find_executor"]
