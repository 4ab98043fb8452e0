"""Finds the tasks: one file or one folder beside this file is one task."""

import functools

from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.plugins import find_classes
from leapdecode_bench.tasks.base import Task


@functools.cache
def _tasks() -> dict[str, Task]:
    # no object of the base is made
    classes = find_classes("leapdecode_bench.tasks", Task)  # type: ignore[type-abstract]
    return {name: task() for name, task in sorted(classes.items())}


def names() -> list[str]:
    """Every task's name, sorted."""
    return list(_tasks())


def find(name: str) -> Task:
    """The task called `name`; raises `UnknownName` with suggestions."""
    if name not in _tasks():
        raise UnknownName(with_suggestions(f"unknown task {name!r}", name, _tasks()))
    return _tasks()[name]
