"""Replicas of the server on Ray Serve: each is a whole server, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode.server.settings import Settings

Message = dict[str, Any]  # of ASGI
HEALTH_SECONDS = 2.0  # between two looks at whether a replica lives
PROMPT = 20_000  # characters of a prompt that decide which replica has seen its beginning
ROUTER = "ray.llm._internal.serve.routing_policies.prefix_aware.prefix_aware_router"


@dataclass
class ForwardedRequest:
    """A request on its way to a replica.

    Attributes:
        method, path, query, headers, client: as ASGI has them.
        body: whole.
        prompt: what the router compares with earlier requests; never empty.
    """

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    client: tuple[str, int] | None
    body: bytes
    prompt: str = field(init=False)

    def __post_init__(self) -> None:
        self.prompt = _prompt_of(self.body)[:PROMPT] or self.path

    @property
    def scope(self) -> dict[str, Any]:
        """The request as an ASGI application sees it."""
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "method": self.method, "path": self.path, "raw_path": self.path.encode(),
            "query_string": self.query, "root_path": "", "headers": self.headers,
            "client": self.client, "server": None,
        }  # fmt: skip


class Replica:
    """A server without a port: requests come from the front, and answers go back there.

    Args:
        start: opens the model.
        settings: limits and names.
        batch_size: texts decoded at a time.
        threads: of the process.
    """

    def __init__(
        self, start: Callable[[], LLM], settings: Settings, batch_size: int, threads: int
    ) -> None:
        from ray import serve

        from leapdecode.llm import AsyncLLM
        from leapdecode.server.app import make_app
        from leapdecode.server.service import Service

        torch.set_num_threads(threads)
        self.name = serve.get_replica_context().replica_id.unique_id
        llm = start()
        self.service = Service(AsyncLLM(llm, batch_size=batch_size), settings)
        self.app = make_app(self.service)

    async def answer(self, request: ForwardedRequest) -> AsyncGenerator[Message, None]:
        """The ASGI messages of an answer; leaving the generator tells the application that the
        client has left.
        """
        messages: asyncio.Queue[Any] = asyncio.Queue()
        left = asyncio.Event()
        incoming = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def receive() -> Message:
            if incoming:
                return incoming.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def run() -> None:
            try:
                await self.app(request.scope, receive, messages.put)
            finally:
                messages.put_nowait(None)

        task = asyncio.create_task(run())
        try:
            while (message := await messages.get()) is not None:
                yield message
        finally:
            left.set()
            await asyncio.wait({task})

    async def metrics(self) -> tuple[str, str]:
        """The replica's name, and its metrics in the form that Prometheus reads."""
        return self.name, self.service.metrics.page().decode()

    async def __del__(self) -> None:
        await self.service.llm.close()
        self.service.close()


@contextmanager
def replicas(
    ray: Any, start: Callable[[], LLM], settings: Settings, batch_size: int, count: int, name: str
) -> Iterator[Any]:
    """A Ray Serve handle to `count` replicas, which end with the block.

    Args:
        ray: connected to its cluster.
        start: opens the model in a replica's process; pickled.
        settings: limits and names; keys, origins and log are the front's.
        batch_size: texts decoded at a time by each.
        count: of replicas.
        name: of the application in the cluster.
    """
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR"})
    threads, resources = _share(ray, count)
    kind: Any = serve.deployment(
        Replica,
        name="leapdecode",
        num_replicas=count,
        ray_actor_options=resources,
        max_ongoing_requests=batch_size + settings.max_queue,
        health_check_period_s=HEALTH_SECONDS,
        graceful_shutdown_timeout_s=settings.grace,
        request_router_config={
            "request_router_class": f"{ROUTER}:PrefixCacheAffinityRouter",
            "request_router_kwargs": {"imbalanced_threshold": batch_size, "do_eviction": True},
        },
    )
    replica_settings = replace(
        settings, api_keys=(), origins=(), log=None, behind_keys=settings.knows_clients
    )
    try:
        bound = kind.bind(start, replica_settings, batch_size, threads)
        yield serve.run(bound, name=name, route_prefix=None)
    finally:
        serve.delete(name)


class Opening:
    """Work that opens a model once, in a worker's process, and gives its name.

    What is wrong with a model is raised as it is, and what is measured at its first opening is kept
    for the replicas.
    """

    def __init__(self, start: Callable[[], LLM]) -> None:
        self.start = start

    def __call__(self) -> Callable[[None], str]:
        return lambda part: self.start().name


def _share(ray: Any, count: int) -> tuple[int, dict[str, float]]:
    """Threads of a replica, and the resources of the cluster that it takes: a GPU or a part of
    one, or a part of the CPUs, of which one is left for Ray's own processes.
    """
    resources = ray.cluster_resources()
    threads = torch.get_num_threads()
    if gpus := resources.get("GPU"):
        return threads, {"num_cpus": 0, "num_gpus": min(1.0, gpus / count)}
    cpus = resources.get("CPU", 1.0)
    return (
        max(min(threads, int(cpus // count)), 1),
        {"num_cpus": min(float(threads), max(cpus - 1, 0.5) / count)},
    )


def _prompt_of(body: bytes) -> str:
    """The prompt or the messages of a body as text; empty where it has none."""
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(document, dict):
        return ""
    prompt = document.get("messages") or document.get("prompt") or ""
    return prompt if isinstance(prompt, str) else json.dumps(prompt)
