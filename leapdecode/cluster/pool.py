"""Workers in processes of a Ray cluster: each makes its own model, and does one part at a time."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from leapdecode.errors import OptionError, WorkersDied

Part = TypeVar("Part")
Done = TypeVar("Done")
Work = Callable[[Part], Done]

DEATHS = 20  # of workers at one part, after which the part is to blame


class Worker:
    """One process's work; `threads` as in the process that asked, so that bits are the same."""

    def __init__(self, start: Callable[[], Work[Any, Any]], threads: int) -> None:
        torch.set_num_threads(threads)
        self.work = start()

    def do(self, part: Any) -> Any:
        """What the work makes of a part."""
        return self.work(part)


def ray_module() -> Any:
    """Ray, which is an extra; raises `OptionError` without it."""
    try:
        import ray
    except ImportError:
        raise OptionError("this needs Ray: pip install 'leapdecode[ray]'") from None
    return ray


@contextmanager
def cluster() -> Iterator[Any]:
    """Ray, connected to the cluster that RAY_ADDRESS names, or to one of this machine alone, which
    ends with the block.
    """
    ray = ray_module()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    os.environ.setdefault("RAY_worker_niceness", "0")  # workers are what the machine is for
    if ray.is_initialized():
        yield ray
        return
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        with _ended_by_sigterm():
            yield ray
    finally:
        ray.shutdown()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends the process in order; Ray's own handler prints a stack instead."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def spread(start: Callable[[], Work[Part, Done]], parts: Iterable[Part]) -> Iterator[Done]:
    """What the work makes of every part, in the parts' order, by as many workers as there is place
    for.

    `start` makes the work in a worker's process; it is pickled, as parts and results are. A worker
    that dies is started again, and its part is done anew. Raises what the work raises, and
    `WorkersDied` where `DEATHS` workers died of one part.
    """
    all_parts = list(parts)
    if not all_parts:
        return
    with cluster() as ray:
        from ray.util import ActorPool

        workers = _workers(ray, start, len(all_parts))
        try:
            pool = ActorPool(workers)
            yield from pool.map(lambda worker, part: worker.do.remote(part), all_parts)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayActorError as error:
            raise WorkersDied(f"{DEATHS} workers died of one part of the work") from error
        finally:
            for worker in workers:
                ray.kill(worker)


def _workers(ray: Any, start: Callable[[], Any], most: int) -> list[Any]:
    """Workers of as many threads as this process has, or of one GPU each."""
    threads = torch.get_num_threads()
    resources = ray.cluster_resources()
    options: dict[str, int]
    if resources.get("GPU"):
        options = {"num_gpus": 1, "num_cpus": 0}
        num_workers = int(resources["GPU"])
    else:
        options = {"num_cpus": threads}
        num_workers = int(resources.get("CPU", 1)) // threads
    if not num_workers:
        raise OptionError(
            f"a worker has {threads} threads, and the cluster {int(resources.get('CPU', 0))} CPUs; "
            "start with fewer (OMP_NUM_THREADS)"
        )
    kind = ray.remote(**options, max_restarts=-1, max_task_retries=DEATHS)(Worker)
    return [kind.remote(start, threads) for _ in range(min(num_workers, most))]
