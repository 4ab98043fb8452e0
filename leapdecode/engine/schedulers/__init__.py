"""Who runs next: one file in this folder is one policy."""

import inspect
from typing import Any

from leapdecode.engine.schedulers.base import Scheduler
from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.plugins import Registry

SCHEDULERS = Registry(__name__, Scheduler, "scheduler")  # type: ignore[type-abstract]


def scheduler_names() -> list[str]:
    """Every scheduler's name, sorted."""
    return SCHEDULERS.names()


def find_scheduler(name: str) -> type[Scheduler]:
    """The scheduler called `name`; raises `UnknownName` with suggestions."""
    return SCHEDULERS.find(name)


def make_scheduler(wanted: str, batch_size: int) -> Scheduler:
    """A scheduler by its name and options: "single", "scheduled:queue=shortest:verify=1".

    Raises `UnknownName` with suggestions, `OptionError` for a value that it does not take.
    """
    name, *pairs = wanted.split(":")
    kind = find_scheduler(name)
    taken = [key for key in inspect.signature(kind).parameters if key != "batch_size"]
    options: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"scheduler {wanted!r}: {pair!r} is not KEY=VALUE")
        if key not in taken:
            message = f"scheduler {name!r} has no option {key!r}"
            raise UnknownName(with_suggestions(message, key, taken))
        options[key] = _value(value)
    return kind(batch_size, **options)


def _value(written: str) -> Any:
    """A number, true or false, or the text itself."""
    if written.lower() in ("true", "false"):
        return written.lower() == "true"
    return int(written) if written.lstrip("-").isdecimal() else written


__all__ = ["Scheduler", "find_scheduler", "make_scheduler", "scheduler_names"]
