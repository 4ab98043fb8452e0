"""Finds the tasks: one file in this folder is one task."""

import functools
import importlib
import pkgutil

import leapdecode.tasks
from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.tasks.base import Task


@functools.cache
def _tasks() -> dict[str, Task]:
    found = {}
    for module in pkgutil.iter_modules(leapdecode.tasks.__path__):
        for value in vars(importlib.import_module(f"leapdecode.tasks.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Task) and "name" in vars(value):
                found[value.name] = value()
    return dict(sorted(found.items()))


def names() -> list[str]:
    """Every task's name, sorted."""
    return list(_tasks())


def find(name: str) -> Task:
    """The task called `name`; raises `UnknownName` with suggestions."""
    if name not in _tasks():
        raise UnknownName(with_suggestions(f"unknown task {name!r}", name, _tasks()))
    return _tasks()[name]
