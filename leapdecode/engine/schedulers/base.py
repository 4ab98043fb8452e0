"""What a scheduler decides: how many requests are active, who is next, and whose forwards run."""

from collections.abc import Sequence
from typing import ClassVar

from leapdecode.engine.active import ActiveRequest


class Scheduler:
    """Base of the policies; a subclass with a `name` is found by itself, and overrides what it
    decides otherwise.

    Args:
        batch_size: requests that are active at a time.
    """

    name: ClassVar[str]

    def __init__(self, batch_size: int = 8) -> None:
        self.batch_size = batch_size

    def next(self, waiting: Sequence[ActiveRequest]) -> ActiveRequest:
        """Which of those that wait becomes active first; here the one that came first."""
        return waiting[0]

    def model(self, asking: dict[str, list[ActiveRequest]]) -> str:
        """The model that runs in this step, of those that active requests are `asking` a forward
        of, by name.
        """
        raise NotImplementedError
