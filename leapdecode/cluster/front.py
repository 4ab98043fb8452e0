"""The port of several replicas: every request goes to one of them, and to another if it dies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from leapdecode.cluster.pool import cluster, spread
from leapdecode.cluster.replicas import ForwardedRequest, Message, Opening, replicas
from leapdecode.server.app import layers
from leapdecode.server.failures import LOGGER, Failure, failure_of, too_late
from leapdecode.server.metrics import CONTENT_TYPE
from leapdecode.server.service import STOPPING
from leapdecode.server.serving import listen
from leapdecode.server.settings import Settings
from leapdecode.server.streams import ClientLeft, body_of, event, while_client_waits

if TYPE_CHECKING:
    from leapdecode.llm import LLM

TRIES = 3  # replicas that may die of one request


def serve_replicas(
    start: Callable[[], LLM], settings: Settings, batch_size: int, count: int,
    listener: socket.socket, on_ready: Callable[[str, int], None],
) -> None:  # fmt: skip
    """Serve `count` replicas at a bound socket until SIGTERM or Ctrl-C.

    `start` opens the model in each process and is pickled; without `settings.names` its name is the
    model's. `on_ready` is told host and port. Raises what `start` raises.
    """
    with cluster() as ray:
        (opened,) = spread(Opening(start), [None])
        settings = replace(settings, names=settings.names or (opened,))
        name = f"leapdecode-{listener.getsockname()[1]}"
        with replicas(ray, start, settings, batch_size, count, name) as handle:
            front = Front(handle, settings)
            app: ASGIApp = front
            for kind, arguments in layers(settings):
                app = kind(app, **arguments)
            asyncio.run(listen(app, front, listener, on_ready))


class Front:
    """An ASGI application whose answers come from replicas.

    A replica that dies before an answer has begun loses nothing: another one makes the answer. One
    that dies in the middle of a stream ends it with an error as its last event.

    Args:
        handle: of Ray Serve, to `Replica`s.
        settings: of all replicas together.
    """

    def __init__(self, handle: Any, settings: Settings) -> None:
        self.handle, self.settings = handle, settings
        self.answers = handle.options(method_name="answer", stream=True)
        self.relays = set[Relay]()
        self.draining = False

    @property
    def unfinished(self) -> int:
        """Requests under way."""
        return len(self.relays)

    def stop_all(self) -> None:
        """End all that is under way with an error."""
        for relay in list(self.relays):
            relay.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            if self.draining:
                raise Failure(503, STOPPING, headers={"Retry-After": "10"})
            if scope["path"] == "/metrics" and scope["method"] == "GET":
                await Response(await self.metrics(), media_type=CONTENT_TYPE)(scope, receive, send)
                return
            request = await self.forwarded(Request(scope, receive))
            relay = Relay(self, request, send)
            self.relays.add(relay)
            try:
                await while_client_waits(receive, relay.run())
            finally:
                self.relays.discard(relay)
        except (ClientLeft, ClientDisconnect):
            return
        except Exception as error:
            failure = failure_of(error)
            answer = JSONResponse(failure.body, failure.status, dict(failure.headers))
            await answer(scope, receive, send)

    async def forwarded(self, request: Request) -> ForwardedRequest:
        """A request as it is sent to a replica; raises `Failure`."""
        body = await body_of(request, self.settings.max_body, self.settings.patience)
        scope = request.scope
        return ForwardedRequest(
            scope["method"], scope["path"], scope["query_string"], list(scope["headers"]),
            scope.get("client"), body,
        )  # fmt: skip

    async def metrics(self) -> bytes:
        """The metrics of all replicas, each with the label `replica`."""
        results = await self.handle.broadcast("metrics").results_async(return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                LOGGER.warning("a replica gives no metrics", exc_info=result)
        return generate_latest(Together([page for page in results if isinstance(page, tuple)]))


class Relay:
    """One request, from the front to a replica and back."""

    def __init__(self, front: Front, request: ForwardedRequest, send: Send) -> None:
        self.front = front
        self.request = request
        self.send = send
        self.began = self.streams = False
        self.stopping = asyncio.Event()

    def stop(self) -> None:
        """End it with an error."""
        self.stopping.set()

    async def run(self) -> None:
        """Send an answer; raises `Failure` where none has begun, and `ClientLeft`."""
        try:
            await self._until_stopped()
        except ClientLeft:
            raise
        except Exception as error:
            await self._fail(failure_of(error))

    async def _until_stopped(self) -> None:
        """Send an answer; raises what keeps it from being whole."""
        answer = asyncio.create_task(self._answer())
        stopped = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait((answer, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise Failure(503, STOPPING)
            await answer
        finally:
            for task in (answer, stopped):
                task.cancel()
            await asyncio.gather(answer, stopped, return_exceptions=True)

    async def _answer(self) -> None:
        from ray.exceptions import RayActorError

        seconds = self.front.settings.request_seconds
        for _ in range(TRIES):
            messages = self.front.answers.remote(self.request)
            try:
                async with asyncio.timeout(seconds) as limit:
                    async for message in messages:
                        limit.reschedule(None)  # the replica has a limit of its own
                        await self._pass(message)
                return
            except TimeoutError as error:
                raise too_late(seconds) from error
            except RayActorError:
                if self.began:
                    break
            finally:
                messages.cancel()
        raise Failure(503, "the replica that worked on this request died; try again")

    async def _pass(self, message: Message) -> None:
        """Send one message on, to a client that reads."""
        if message["type"] == "http.response.start":
            self.began = True
            kind = dict(message["headers"]).get(b"content-type", b"")
            self.streams = kind.startswith(b"text/event-stream")
        try:
            async with asyncio.timeout(self.front.settings.patience):
                await self.send(message)
        except TimeoutError as error:
            raise ClientLeft from error

    async def _fail(self, failure: Failure) -> None:
        """Raise a failure; where a stream has begun, send it as the last event."""
        if not self.began:
            raise failure
        if self.streams:
            await self.send(
                {"type": "http.response.body", "body": event(failure.body), "more_body": True}
            )
            await self.send({"type": "http.response.body", "body": b""})


class Together:
    """Metrics of several replicas as one collector of prometheus-client."""

    def __init__(self, pages: list[tuple[str, str]]) -> None:
        self.pages = pages

    def collect(self) -> list[Any]:
        """Every metric once, with the samples of all replicas."""
        families: dict[str, Any] = {}
        for replica, page in self.pages:
            for family in text_string_to_metric_families(page):
                known = families.setdefault(family.name, family)
                samples = family.samples
                if known is family:
                    known.samples = []
                for sample in samples:
                    labels = {**sample.labels, "replica": replica}
                    known.samples.append(sample._replace(labels=labels))
        return list(families.values())
