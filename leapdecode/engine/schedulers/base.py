"""What a scheduler decides: how many requests are active, who is next, and whose forwards run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from leapdecode.errors import OptionError

if TYPE_CHECKING:
    from leapdecode.engine.active import ActiveRequest


class Scheduler:
    """Base of the policies; a subclass with a `name` is found by itself, and overrides what it
    decides otherwise.

    Args:
        batch_size: requests that are active at a time.

    Attributes:
        overlap: whether models run at the same time, each in a thread of its own.
    """

    name: ClassVar[str]
    overlap = False

    def __init__(self, batch_size: int = 8) -> None:
        self.batch_size = batch_size

    def begin(self, device: str, processes: int) -> None:
        """Called by an engine before its first step.

        Args:
            device: the type of the target's device: "cpu", "cuda", ...
            processes: how many share the target.
        """

    def arrange(self, active: Sequence[ActiveRequest]) -> None:
        """Called before a step when other requests are active than before.

        Args:
            active: all of them, in the order of their batch slots in the target's cache.
        """

    def next(self, waiting: Sequence[ActiveRequest]) -> ActiveRequest:
        """Which of those that wait becomes active first; here the one that came first."""
        return waiting[0]

    def model(self, asking: dict[str, list[ActiveRequest]]) -> str:
        """The model that runs in this step, of those that active requests are `asking` a forward
        of, by name.
        """
        raise NotImplementedError

    def turns(self, asking: dict[str, list[ActiveRequest]]) -> dict[str, list[ActiveRequest]]:
        """By model, the requests whose forwards run now, in one batch; here all of one model.

        Where models overlap, `asking` has only those that are not running, and there may be none.
        """
        name = self.model(asking)
        if not isinstance(name, str) or name not in asking:
            raise OptionError(
                f"scheduler {self.name!r} names model {name!r}, "
                f"but requests wait for {', '.join(asking)}"
            )
        return {name: asking[name]}
