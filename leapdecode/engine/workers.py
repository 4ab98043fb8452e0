"""One forward under way, and who computes it: the caller's own thread, or one thread per model, so
that models overlap.
"""

from __future__ import annotations

import time
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
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
        results: those of `ready`, in order.
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
    results: list[ForwardResult] = field(default_factory=list)
    error: Exception | None = None

    @property
    def requests(self) -> list[ActiveRequest]:
        """All that it serves."""
        return self.ready if self.joining is None else [*self.ready, self.joining]

    @property
    def forwards(self) -> list[Forward]:
        """What `ready` asked for."""
        return [request.forward for request in self.ready if request.forward is not None]

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
                self.results = self.cache.forward(self.forwards)
        except Exception as error:  # a model's own code may raise anything
            self.error = error
        self.ended = time.perf_counter()
        self.computing = time.thread_time() - computing


class Workers:
    """Computes forwards; with `overlap` each model has a thread of its own.

    On a CPU the threads share the cores: a draft has one, the target the others. On a GPU each
    model launches on a stream of its own.
    """

    def __init__(self, overlap: bool) -> None:
        self.overlap = overlap
        self.done: list[Work] = []
        self.under_way: dict[Future[None], Work] = {}
        self.threads: dict[str, ThreadPoolExecutor] = {}

    def start(self, work: Work) -> None:
        """Compute it: now, or in its model's thread."""
        if not self.overlap:
            self.done.clear()  # an interrupt may have left one
            work.compute()
            self.done.append(work)
            return
        if work.model not in self.threads:
            self.threads[work.model] = _thread(work.model)
        self.under_way[self.threads[work.model].submit(_compute, work)] = work

    def wait(self, everything: bool = False) -> list[Work]:
        """What has been computed since the last call; waits for one of them, or for `everything`
        under way.
        """
        if self.under_way and (everything or not self.done):
            until = ALL_COMPLETED if everything else FIRST_COMPLETED
            for future in wait(self.under_way, return_when=until).done:
                self.done.append(self.under_way.pop(future))
        done, self.done = self.done, []
        return done

    def close(self) -> None:
        """End the threads, once they are idle."""
        for thread in self.threads.values():
            thread.shutdown(wait=True)
        self.threads.clear()


def _compute(work: Work) -> None:
    """Compute in a model's thread; on a GPU behind what the caller's stream has moved in caches."""
    if torch.cuda.is_available():
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    work.compute()


def _thread(model: str) -> ThreadPoolExecutor:
    """A thread that has its share of the cores, and its own stream on a GPU."""
    cores = torch.get_num_threads()
    share = 1 if model != "target" else max(cores - 1, 1)

    def prepare() -> None:
        torch.set_num_threads(share)
        if torch.cuda.is_available():
            torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]

    thread = ThreadPoolExecutor(1, f"leapdecode-{model}", prepare)
    thread.submit(int).result()  # the threads of later pools start with the number set last
    torch.set_num_threads(cores)
    return thread
