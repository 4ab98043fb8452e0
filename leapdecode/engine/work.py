"""One forward under way: for whom, and what came of it."""

import time
from dataclasses import dataclass, field

import torch

from leapdecode.core import Forward, ForwardResult
from leapdecode.engine.active import ActiveRequest
from leapdecode.engine.places import Cache


@dataclass(slots=True, eq=False)
class Work:
    """A forward of one model for the requests that wait for it; `compute` may run in any thread.

    Attributes:
        ready: requests whose trees are evaluated together.
        joining: a request of which one chunk of missing text is evaluated before, alone.
        began, prefilled_at, ended: when `compute` began, had the chunk, and ended.
        computing: seconds for which its thread had a core.
        chunk: tokens and seconds of that chunk.
        found: the results of `ready`, in order.
        error: what the model raised.
    """

    model: str
    cache: Cache
    ready: list[ActiveRequest]
    joining: ActiveRequest | None = None
    began: float = 0.0
    prefilled_at: float = 0.0
    ended: float = 0.0
    computing: float = 0.0
    chunk: tuple[int, float] = (0, 0.0)
    found: list[ForwardResult] = field(default_factory=list)
    error: Exception | None = None

    @property
    def requests(self) -> list[ActiveRequest]:
        """All that it serves."""
        return self.ready if self.joining is None else [*self.ready, self.joining]

    @property
    def forwards(self) -> list[Forward]:
        """What `ready` asked for."""
        return [one.forward for one in self.ready if one.forward is not None]

    @torch.inference_mode()
    def compute(self) -> None:
        """Run the model; what it raises is kept as the `error`."""
        self.began = self.prefilled_at = time.perf_counter()
        computing = time.thread_time()
        try:
            if self.joining is not None and self.joining.forward is not None:
                self.chunk = self.cache.prefill(self.joining.forward)
                self.prefilled_at = time.perf_counter()
            if self.ready:
                self.found = self.cache.forward(self.forwards)
        except Exception as error:  # a model's own code may raise anything
            self.error = error
        self.ended = time.perf_counter()
        self.computing = time.thread_time() - computing
