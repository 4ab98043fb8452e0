"""The endpoints: OpenAI's completions and chat, vLLM's tokenize and detokenize, health, metrics."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect

from leapdecode import __version__
from leapdecode.errors import LeapdecodeError
from leapdecode.llm.result import Result
from leapdecode.llm.trace import costs_of, page
from leapdecode.methods import find, names
from leapdecode.server.bodies import ChatCompletion, Completion, Detokenize, Tokenize, read
from leapdecode.server.documents import ChatWriter, CompletionWriter, Writer
from leapdecode.server.failures import Failure, failure_of
from leapdecode.server.jobs import Job, ending_of, texts_of
from leapdecode.server.metrics import CONTENT_TYPE
from leapdecode.server.middleware import AccessLog, Gate, salt_of
from leapdecode.server.openapi import described, documented
from leapdecode.server.service import News, Service
from leapdecode.server.settings import Settings
from leapdecode.server.streams import (
    ClientLeft,
    EventStream,
    body_of,
    chunks,
    document,
    while_client_waits,
)

Body = TypeVar("Body", bound=BaseModel)
LARGE = 100_000  # bytes of a body that is not read on the event loop
LEFT = 499  # nobody reads it: the client has left


def make_app(service: Service) -> FastAPI:
    """The application of a service."""
    app = FastAPI(title="leapdecode", version=__version__, docs_url=None, redoc_url=None)
    app.state.service = service
    for kind in (Failure, LeapdecodeError, Exception):
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(HTTPException, _refused)
    for left in (ClientLeft, ClientDisconnect):
        app.add_exception_handler(left, _left)
    add_models(app, service)
    add_texts(app, service)
    for kind, arguments in layers(service.settings):
        app.add_middleware(kind, **arguments)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


def layers(settings: Settings) -> list[tuple[Any, dict[str, Any]]]:
    """Classes of middleware with their arguments; the last one sees a request first."""
    middleware: list[tuple[Any, dict[str, Any]]] = [(Gate, {"keys": settings.api_keys})]
    if settings.origins:
        allowed = {"allow_origins": list(settings.origins)}
        middleware.append(
            (CORSMiddleware, allowed | {"allow_methods": ["*"], "allow_headers": ["*"]})
        )
    if settings.log is not None:
        middleware.append((AccessLog, {"log": settings.log}))
    return middleware


def add_models(app: FastAPI, service: Service) -> None:
    """What can be asked of the server and its model."""
    began, llm = int(time.time()), service.llm.llm
    usable = [name for name in names() if llm.draft is not None or not find(name).needs_draft]

    def card(name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": began,
            "owned_by": "leapdecode",
            "max_model_len": llm.runner.max_length,
            "generation_config": llm.model_defaults.as_dict(),
        }

    @app.head("/health", include_in_schema=False)
    @app.get("/health", responses=documented(503))
    async def health() -> dict[str, str]:
        """Whether requests are served."""
        if service.draining:
            raise Failure(503, "the server is stopping")
        return {"status": "ok"}

    @app.head("/", include_in_schema=False)
    @app.get("/", response_class=HTMLResponse)
    async def front() -> HTMLResponse:
        """A page to try the model on, and to see how its texts are made."""
        served = {"model": service.settings.names[0], "method": service.settings.method}
        return HTMLResponse(page((), costs_of(llm), served=True, methods=usable, **served))

    @app.get("/version")
    async def version() -> dict[str, str]:
        """The server's version."""
        return {"version": __version__}

    @app.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times, for Prometheus."""
        return Response(service.metrics.page(), media_type=CONTENT_TYPE)

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        """The model that is served, by all its names."""
        return {"object": "list", "data": [card(name) for name in service.settings.names]}

    @app.get("/v1/models/{name:path}", responses=documented(404))
    async def model(name: str) -> dict[str, Any]:
        """One model."""
        check_model(service, name)
        return card(name)


def add_texts(app: FastAPI, service: Service) -> None:
    """What makes texts and tokens."""

    @app.post("/v1/completions", **takes(Completion))
    async def completions(request: Request) -> Response:
        """Continue prompts."""
        body = await parsed(request, service, Completion)
        return await answer(request, service, body, CompletionWriter)

    @app.post("/v1/chat/completions", **takes(ChatCompletion))
    async def chat(request: Request) -> Response:
        """Answer a conversation."""
        body = await parsed(request, service, ChatCompletion)
        return await answer(request, service, body, ChatWriter)

    @app.post("/tokenize", **takes(Tokenize))
    async def tokenize(request: Request) -> Any:
        """Token ids of a prompt, or of a conversation."""
        body = await parsed(request, service, Tokenize)
        name, prompt = "prompt", body.prompt  # type: tuple[str, Any]
        if body.messages is not None:
            name = "messages"
            prompt = [message.plain for message in body.messages]
        ids: list[int] = []
        if prompt:
            encode = partial(service.jobs.encoded, prompt, name, **ending_of(body))
            ids = await service.run(encode)
        return {
            "tokens": ids,
            "count": len(ids),
            "max_model_len": service.llm.llm.runner.max_length,
        }

    @app.post("/detokenize", **takes(Detokenize))
    async def detokenize(request: Request) -> Any:
        """The text of token ids."""
        body = await parsed(request, service, Detokenize)
        vocabulary = service.llm.llm.runner.vocabulary
        if max(body.tokens, default=0) >= vocabulary:
            raise Failure(400, f"token ids go from 0 to {vocabulary - 1}", "tokens")
        return {"prompt": await service.run(service.llm.llm.tokenizer.decode, body.tokens)}


def takes(kind: type[BaseModel]) -> dict[str, Any]:
    """Arguments of the decorator of an endpoint that has such a body."""
    reference = {"$ref": f"#/components/schemas/{kind.__name__}"}
    content = {"application/json": {"schema": reference}}
    return {
        "openapi_extra": {"requestBody": {"required": True, "content": content}},
        "responses": documented(400, 401, 404, 408, 413, 429, 503, 504),
    }


async def parsed(request: Request, service: Service, kind: type[Body]) -> Body:
    """The body as an object; raises `Failure`."""
    settings = service.settings
    raw = await body_of(request, settings.max_body, settings.patience)
    body = await service.run(read, kind, raw) if len(raw) > LARGE else read(kind, raw)
    name = getattr(body, "model", None)
    if name is not None:
        check_model(service, name)
    return body


def check_model(service: Service, name: str) -> None:
    """Raise `Failure` unless the model is called that."""
    known = service.settings.names
    if name not in known:
        message = f"there is no model {name[:100]!r} here; there is {' and '.join(known)}"
        raise Failure(404, message, "model", "model_not_found")


async def answer(
    request: Request, service: Service, body: Completion | ChatCompletion, kind: type[Writer]
) -> Response:
    """The answer, whole or as events. What is wrong with the request shows before the first."""
    ticket = service.admit(texts_of(body))
    try:
        job = await while_client_waits(request.receive, service.prepare(body, ticket))
        salt = salt_of(request.headers.get("authorization", ""), body.cache_salt)
        job = replace(job, arguments={**job.arguments, "cache_salt": salt})
        writer = kind(service.settings.names[0], service.llm.llm.tokenizer)
        news = service.news(job, ticket)
        if not body.stream:
            results = await while_client_waits(request.receive, whole(job, news))
            return document(writer.whole(results, job.samples), service.settings.patience)
        first = await while_client_waits(request.receive, anext(news))  # type: ignore[arg-type]
    except BaseException:
        ticket.release()
        raise
    events = chunks(job, writer, news, first, body.stream_options)
    return EventStream(events, service.settings.patience, ticket.release)


async def whole(job: Job, news: AsyncGenerator[News, None]) -> list[Result]:
    """All texts of a job, in their order."""
    results = dict[int, Result]()
    async with aclosing(news) as everything:
        async for number, update in everything:
            if isinstance(update, Result):
                results[number] = update
    return [results[number] for number in range(job.count)]


async def _failed(request: Request, error: Exception) -> Response:
    failure = failure_of(error)
    return JSONResponse(failure.body, failure.status, dict(failure.headers))


async def _refused(request: Request, error: Exception) -> Response:
    """A path or a method that does not exist."""
    assert isinstance(error, HTTPException), "the handler is for these alone"
    failure = Failure(
        error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}"
    )
    return JSONResponse(failure.body, failure.status, dict(error.headers or {}))


async def _left(request: Request, error: Exception) -> Response:
    return Response(status_code=LEFT)
