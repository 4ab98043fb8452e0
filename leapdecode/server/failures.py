"""Errors in OpenAI's form: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leapdecode.errors import LeapdecodeError

LOGGER = logging.getLogger("leapdecode.server")
TYPES = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}  # all others: invalid_request_error


@dataclass
class Failure(Exception):
    """A request that gets an error.

    Attributes:
        status: of HTTP.
        message: which rule was broken, and the way out.
        param: the field that is wrong, where it is one.
        code: a word for programs.
        headers: that the answer carries.
    """

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, Any]:
        """The answer's document."""
        return {
            "error": {
                "message": self.message,
                "type": TYPES.get(self.status, "invalid_request_error"),
                "param": self.param,
                "code": self.code,
            }
        }


def too_late(seconds: float) -> Failure:
    """The failure of a request that took longer than the server allows."""
    message = f"not done after {seconds:g} s; ask for less"
    return Failure(504, message, headers={"x-should-retry": "false"})


def failure_of(error: BaseException) -> Failure:
    """The failure that a client gets for an error: 400 for a user's error, 500 for all others.

    A 500 is logged with its traceback, under a request id that the answer has, too.
    """
    if isinstance(error, Failure):
        return error
    if isinstance(error, LeapdecodeError) and error.exit_code == 2:
        return Failure(400, str(error))
    request_id = uuid.uuid4().hex
    LOGGER.error("request %s failed", request_id, exc_info=error)
    message = (
        str(error)
        if isinstance(error, LeapdecodeError)
        else "the server failed on this request; its log tells why, under the request id "
        f"{request_id}"
    )
    return Failure(500, message, headers={"X-Request-Id": request_id})
