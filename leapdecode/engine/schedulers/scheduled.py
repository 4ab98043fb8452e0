"""Scheduled speculative execution (SEED, Algorithm 1): drafts of several requests in parallel, one
target, a verification queue in rounds.

Where models have processors of their own, they overlap: the draft goes on with some requests while
the target verifies another, and whoever is verified drafts again at once. Requests that began to
draft together are queued together, and the draft then waits for the target; so two halves may take
turns instead, one drafting while the target verifies the other.

Where one processor serves both, a round is: all requests draft together, in batches, then the queue
is verified, all at once or one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from leapdecode.engine.schedulers.base import Scheduler
from leapdecode.errors import OptionError

if TYPE_CHECKING:
    from leapdecode.engine.active import ActiveRequest

Order = Callable[["ActiveRequest"], Any]


def _likelihood(request: ActiveRequest) -> float:
    """Minus the tokens that a request's tree is expected to yield, by the draft's probabilities.

    A node is reached with the product of the probabilities on its path; one without counts as 1/2.
    """
    tree = request.forward.tree if request.forward is not None else None
    if tree is None:
        return 0.0
    reached = [1.0] * len(tree)
    for node in range(1, len(tree)):
        probability = tree.draft_probabilities[node]
        reached[node] = reached[tree.parents[node]] * (0.5 if probability is None else probability)
    return -sum(reached)


def _drafts(request: ActiveRequest) -> bool:
    """Whether a request waits for the draft, or for what it is computing."""
    return request.forward is not None and request.forward.model == "draft"


QUEUES: dict[str, Order] = {
    "fcfs": lambda request: request.asked_at,
    "shortest": lambda request: request.sequence.remaining,
    "likeliest": _likelihood,
}


class Scheduled(Scheduler):
    """One target verifies a queue of requests whose drafts run in parallel.

    Args:
        batch_size: requests that are active at a time: the paper's number of draft models.
        queue: "fcfs": first come, first served, as in the paper. "shortest": the one with the
            fewest tokens left. "likeliest": the one whose draft expects most tokens.
        verify: how many of the queue a target forward verifies; 0 for all, which is faster
            wherever a forward of more rows is; 1 is the paper's.
        overlap: whether draft and target run at the same time, in threads of their own: "auto"
            does so where the target is on a GPU that no other process shares with it. On a CPU they
            share its cores.
        halves: where models overlap, the draft serves one half of the requests while the target
            verifies the other half at once; of use where each model has a processor of its own.
    """

    name = "scheduled"

    def __init__(
        self,
        batch_size: int = 8,
        queue: str = "fcfs",
        verify: int = 0,
        overlap: bool | str = "auto",
        halves: bool = False,
    ) -> None:
        super().__init__(batch_size)
        if queue not in QUEUES:
            raise OptionError(f"queue={queue!r} must be one of {', '.join(QUEUES)}")
        if isinstance(verify, bool) or not isinstance(verify, int) or verify < 0:
            raise OptionError(f"verify={verify!r} must be a whole number, 0 for all that is queued")
        if overlap not in (True, False, "auto"):
            raise OptionError(f"overlap={overlap!r} must be 'auto', True or False")
        if not isinstance(halves, bool):
            raise OptionError(f"halves={halves!r} must be True or False")
        if halves and verify:
            raise OptionError("halves=true verifies a half at once; leave verify out")
        self.queue, self.verify = queue, verify
        self.automatic = overlap == "auto"  # by where the target is
        self.overlap = overlap is True
        self.round: set[int] = set()  # requests of the queue that are still to be verified
        self.halves = halves
        self.parts: list[list[ActiveRequest]] = []  # the halves
        self.drafting = 0  # the half whose drafts are under way

    def begin(self, device: str, processes: int) -> None:
        if self.automatic:
            self.overlap = device != "cpu" and processes == 1

    def arrange(self, active: Sequence[ActiveRequest]) -> None:
        middle = (len(active) + 1) // 2
        self.parts = [list(active[:middle]), list(active[middle:])]

    def turns(self, asking: dict[str, list[ActiveRequest]]) -> dict[str, list[ActiveRequest]]:
        if self.overlap and self.halves:
            return self._of_halves(asking)
        queue = sorted(asking.get("target", ()), key=QUEUES[self.queue])
        drafting = {name: requests for name, requests in asking.items() if name != "target"}
        if self.overlap:
            verified = queue[: self.verify or None]
            return drafting | ({"target": verified} if verified else {})
        return self._of_round(queue, drafting)

    def _of_halves(self, asking: dict[str, list[ActiveRequest]]) -> dict[str, list[ActiveRequest]]:
        """The target verifies a half once all of it is queued; the draft finishes one half before
        it begins with the other.

        Batch slots of a half adjoin, so forwards of whole halves see views of the cache.
        """
        turns: dict[str, list[ActiveRequest]] = {}
        drafting = [[request for request in part if _drafts(request)] for part in self.parts]
        if "target" in asking:
            queued = [
                request
                for part, unfinished in zip(self.parts, drafting, strict=True)
                for request in part
                if not unfinished and request.forward is not None
            ]
            turns["target"] = queued
        if "draft" in asking:
            if not drafting[self.drafting]:
                self.drafting = 1 - self.drafting
            turns["draft"] = drafting[self.drafting]
        return {name: requests for name, requests in turns.items() if requests}

    def _of_round(
        self, queue: list[ActiveRequest], drafting: dict[str, list[ActiveRequest]]
    ) -> dict[str, list[ActiveRequest]]:
        """One processor: whoever is queued when all have drafted is verified once, then the next
        drafts run.
        """
        due = [request for request in queue if request.request.id in self.round]
        if not due and drafting:
            return drafting
        if not due:
            due = queue
            self.round = {request.request.id for request in queue}
        verified = due[: self.verify or None]
        self.round -= {request.request.id for request in verified}
        return {"target": verified}
