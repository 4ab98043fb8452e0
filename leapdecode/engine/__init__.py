"""Who runs what, when: requests in, events and outputs out."""

from leapdecode.engine.engine import Engine
from leapdecode.engine.schedulers import find_scheduler, make_scheduler, scheduler_names

__all__ = ["Engine", "find_scheduler", "make_scheduler", "scheduler_names"]
