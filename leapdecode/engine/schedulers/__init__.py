"""Who runs next: one file in this folder is one policy."""

import functools

from leapdecode.engine.schedulers.base import Scheduler
from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.plugins import find_classes


@functools.cache
def _schedulers() -> dict[str, type[Scheduler]]:
    return find_classes(__name__, Scheduler)


def scheduler_names() -> list[str]:
    """Every scheduler's name."""
    return sorted(_schedulers())


def find_scheduler(name: str) -> type[Scheduler]:
    """The scheduler called `name`; raises `UnknownName` with suggestions."""
    if name not in _schedulers():
        raise UnknownName(with_suggestions(f"unknown scheduler {name!r}", str(name), _schedulers()))
    return _schedulers()[name]


__all__ = ["Scheduler", "find_scheduler", "scheduler_names"]
