"""All pending forwards of a model run in one ragged batch; requests join and leave while others
decode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leapdecode.engine.schedulers.base import Scheduler

if TYPE_CHECKING:
    from leapdecode.engine.active import ActiveRequest


class Batched(Scheduler):
    """Drafts run first, so that drafting requests meet in one target forward.

    A request whose method has no draft does not wait until the others have drafted all they want:
    between two of its target forwards there is one draft forward at most.
    """

    name = "batched"

    def __init__(self, batch_size: int = 8) -> None:
        super().__init__(batch_size)
        self.last = ""

    def model(self, asking: dict[str, list[ActiveRequest]]) -> str:
        plain = any(not request.context.has_draft for request in asking.get("target", ()))
        drafts = [name for name in asking if name != "target"]
        target = not drafts or (plain and self.last != "target")
        self.last = "target" if target else min(drafts)
        return self.last
