"""Finds the tasks: one file in this folder is one task; a name that ends in .toml is a user's."""

import functools

from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.plugins import bench_part, find_classes
from leapdecode.reasoning.tasks.base import TreeTask
from leapdecode.reasoning.tasks.from_file import FileTask


@functools.cache
def _tasks() -> dict[str, TreeTask]:
    # no object of the base is made
    found = find_classes("leapdecode.reasoning.tasks", TreeTask)  # type: ignore[type-abstract]
    return {name: task() for name, task in sorted(found.items())}


def names() -> list[str]:
    """Every task's name, sorted."""
    return list(_tasks())


def find(name: str) -> TreeTask:
    """The task called `name`, or that a TOML file describes, or with leapdecode-bench a public set
    ("gsm8k=FILE").

    Raises `UnknownName` with suggestions, or `TaskError`.
    """
    if name.endswith(".toml"):
        return FileTask(name)
    public = bench_part("trees")
    if public is not None and (task := public(name, _tasks())) is not None:
        return task  # type: ignore[no-any-return]
    if name not in _tasks():
        message = with_suggestions(f"unknown task {name!r}", name, _tasks())
        more = "" if public else "; leapdecode-bench has more"
        raise UnknownName(f"{message} (or the name of a .toml file{more})")
    return _tasks()[name]
