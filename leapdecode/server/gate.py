"""Who may ask: keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from leapdecode.server.failures import Failure

OPEN = ("/", "/health", "/version")  # for everybody


def salt_of(authorization: str, salt: str | None) -> str:
    """The salt under which cached keys and values pass from text to text: of a client's key alone,
    so that counts and times tell nobody how others' prompts begin, and of a salt that it sends.
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
            given = key.strip()
            # all are compared, so that the time says nothing of which is near
            right = [hmac.compare_digest(given, known) for known in self.keys]
            if kind.lower() != b"bearer" or not any(right):
                failure = Failure(
                    401, "send a valid API key: Authorization: Bearer KEY", code="invalid_api_key"
                )
                headers = {"WWW-Authenticate": "Bearer"}
                await JSONResponse(failure.body, 401, headers)(scope, receive, send)
                return
        await self.app(scope, receive, send)
