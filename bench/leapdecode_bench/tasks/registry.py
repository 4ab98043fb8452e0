"""Finds the tasks: one file or one folder beside this file is one task."""

from leapdecode.plugins import Registry
from leapdecode_bench.tasks.base import Task

# no object of the base is made
TASKS = Registry("leapdecode_bench.tasks", Task, "task")  # type: ignore[type-abstract]
names = TASKS.names


def find(name: str) -> Task:
    """The task called `name`; raises `UnknownName` with suggestions."""
    return TASKS.instance(name)
