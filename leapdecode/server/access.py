"""A line per request, for whoever runs the server."""

from __future__ import annotations

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leapdecode.plain import one_line

QUIET = ("/health", "/metrics")  # asked every few seconds, by machines
MOST = 200  # characters of a path, or of an address that a proxy tells


class AccessLog:
    """Middleware that tells of every request when its answer has been sent.

    A line has the time of day, client, method, path, status and seconds; "left" stands for the
    status of a request whose client went away before its answer began.
    """

    def __init__(self, app: ASGIApp, tell: Callable[[str], None]) -> None:
        self.app, self.tell = app, tell

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), "left"

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            client = one_line((scope.get("client") or ("-",))[0])[:MOST]
            path = one_line(scope["path"])[:MOST]
            self.tell(
                f"{time.strftime('%H:%M:%S')} {client} {scope['method']} {path} {status} "
                f"{time.perf_counter() - began:.2f} s"
            )
