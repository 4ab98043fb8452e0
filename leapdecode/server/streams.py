"""Answers that are streamed as server-sent events, and clients that leave."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leapdecode.llm.result import Result
from leapdecode.server.bodies import StreamOptions
from leapdecode.server.documents import Document, Writer, dumped, pieces_of
from leapdecode.server.failures import Failure, failure_of
from leapdecode.server.jobs import Job
from leapdecode.server.service import News

T = TypeVar("T")
DONE = b"data: [DONE]\n\n"


class ClientLeft(Exception):
    """Nobody waits for the answer any more."""


def event(document: Document) -> bytes:
    """A document as a server-sent event."""
    return f"data: {dumped(document)}\n\n".encode()


def document(content: Document, patience: float) -> Response:
    """A document as an answer. A long one is written piece by piece, and others go on meanwhile."""
    pieces = pieces_of(content)
    first, second = next(pieces), next(pieces, None)
    if second is None:
        return Response(first, media_type="application/json")
    written = _written(itertools.chain((first, second), pieces))
    return EventStream(written, patience, lambda: None, media_type="application/json")


async def _written(pieces: Iterator[str]) -> AsyncGenerator[bytes, None]:
    for piece in pieces:
        yield piece.encode()
        await asyncio.sleep(0)


async def chunks(
    job: Job, writer: Writer, news: AsyncGenerator[News, None], first: News,
    options: StreamOptions | None,
) -> AsyncGenerator[bytes, None]:  # fmt: skip
    """The events of a streamed answer; `first` was taken from `news` already."""
    results, tokens = dict[int, Result](), Counter[int]()
    with_usage = options is not None and options.include_usage
    continuous = with_usage and options is not None and options.continuous_usage_stats
    prompt = sum(map(len, job.prompts))

    def chunk(choices: list[Document]) -> bytes:
        usage: Document = {"usage": None} if with_usage else {}
        if continuous:
            generated = tokens.total()
            usage["usage"] = {
                "prompt_tokens": prompt, "completion_tokens": generated,
                "total_tokens": prompt + generated,
            }  # fmt: skip
        return event(writer.chunk(choices, **usage))

    openings = [opening for opening in map(writer.opening, range(job.count)) if opening]
    async with aclosing(news) as everything:
        if openings:
            yield chunk(openings)
        try:
            number, update = first
            while True:
                if isinstance(update, Result):
                    results[number] = update
                    tokens[number] = len(update.token_ids)
                    yield chunk([writer.part(number, (), update.finish_reason)])
                    if len(results) == job.count:
                        break
                else:
                    tokens[number] += len(update)
                    if any(piece.text or piece.logprobs for piece in update):
                        yield chunk([writer.part(number, update, None)])
                number, update = await anext(everything)
        except Exception as error:  # the status has been sent: the stream itself tells
            yield event(failure_of(error).body)
            return
    if with_usage:
        ordered = [results[number] for number in range(job.count)]
        yield event(writer.chunk([], **writer.facts(ordered, job.samples)))
    yield DONE


class EventStream(Response):
    """A response in pieces: events, if nothing else is said. It ends when the client leaves, or
    does not read for `patience` seconds; `at_end` is called then, and where it never began.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[bytes, None], patience: float, at_end: Callable[[], None],
        media_type: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(media_type=media_type)
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.events, self.patience, self.at_end = events, patience, at_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientLeft):
                await while_client_waits(receive, self._send(send))
        finally:
            self.at_end()

    async def _send(self, send: Send) -> None:
        start = {
            "type": "http.response.start", "status": self.status_code, "headers": self.raw_headers,
        }  # fmt: skip
        async with aclosing(self.events) as events:
            await send(start)
            async for part in events:
                message = {"type": "http.response.body", "body": part, "more_body": True}
                try:
                    async with asyncio.timeout(self.patience):
                        await send(message)
                except TimeoutError as error:
                    raise ClientLeft from error
        await send({"type": "http.response.body", "body": b""})


async def while_client_waits(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; when the client leaves, it is cancelled and `ClientLeft` raised."""
    task = asyncio.create_task(work)
    client_left = asyncio.create_task(_left(receive))
    try:
        await asyncio.wait((task, client_left), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        task.cancel()
        client_left.cancel()
        await asyncio.gather(task, client_left, return_exceptions=True)


async def _left(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def body_of(request: Request, most: int, patience: float) -> bytes:
    """The request's body; raises `Failure` where it is too large or comes too slowly."""
    too_large = Failure(413, f"the body is larger than {most:,} bytes")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(patience):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise too_large
    except TimeoutError as error:
        raise Failure(408, f"the body did not come within {patience:g} s") from error
    return bytes(body)
