"""Who computes: the caller's own thread, or one thread per model, so that models overlap."""

from __future__ import annotations

from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import torch

from leapdecode.engine.work import Work


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
