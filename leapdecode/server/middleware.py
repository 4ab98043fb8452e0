"""What stands before the application: API keys, and a log line for every request."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from leapdecode.plain import one_line
from leapdecode.server.failures import Failure

OPEN = ("/", "/health", "/version")  # need no key
QUIET = ("/health", "/metrics")  # not logged: machines ask every few seconds
MOST = 200  # characters of a path, or of an address that a proxy tells


def salt_of(authorization: str, salt: str | None) -> str:
    """The cache salt of a request: a digest of the client's API key and of the salt that it sends.

    Texts share cached keys and values under one salt alone, so that counts and times tell no client
    how the prompts of others begin.
    """
    key = authorization.partition(" ")[2].strip()
    if not key and not salt:
        return ""
    return hashlib.sha256(f"{key}\0{salt or ''}".encode(errors="surrogatepass")).hexdigest()


class Gate:
    """Middleware that asks for an API key, where the server has some."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self.app = app
        self.keys = [key.encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.keys and scope["path"] not in OPEN:
            kind, _, key = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            # every key is compared, so that the time says nothing of which one is near
            matches = [hmac.compare_digest(key.strip(), known) for known in self.keys]
            if kind.lower() != b"bearer" or not any(matches):
                failure = Failure(
                    401, "send a valid API key: Authorization: Bearer KEY", code="invalid_api_key"
                )
                headers = {"WWW-Authenticate": "Bearer"}
                await JSONResponse(failure.body, 401, headers)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class AccessLog:
    """Middleware that logs every request when its answer has been sent.

    A line has the time of day, client, method, path, status and seconds; "left" stands for the
    status of a request whose client went away before its answer began.
    """

    def __init__(self, app: ASGIApp, log: Callable[[str], None]) -> None:
        self.app = app
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in QUIET:
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = "left"

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            client = one_line((scope.get("client") or ("-",))[0])[:MOST]
            path = one_line(scope["path"])[:MOST]
            self.log(
                f"{time.strftime('%H:%M:%S')} {client} {scope['method']} {path} {status} "
                f"{time.perf_counter() - began:.2f} s"
            )
