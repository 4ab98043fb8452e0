"""Who runs what, when: requests in, events and outputs out."""

from typing import TYPE_CHECKING, Any

from leapdecode.engine.schedulers import find_scheduler, make_scheduler, scheduler_names

__all__ = ["Engine", "find_scheduler", "make_scheduler", "scheduler_names"]

if TYPE_CHECKING:
    from leapdecode.engine.engine import Engine


def __getattr__(name: str) -> Any:
    if name == "Engine":  # loads torch, which checks of options do without
        from leapdecode.engine.engine import Engine

        return Engine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
