"""How a server behaves: limits, keys, names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Of one server.

    Attributes:
        names: of the model, as clients may call it; the first is the one that answers carry.
        api_keys: clients have to send one of these; none: everybody is served.
        origins: of web pages that may ask from a browser, "*" for all.
        method: what decodes where a request names no method.
        max_queue: samples that may wait for a place in the batch; more get status 429.
        max_tokens: most tokens of an answer.
        max_body: most bytes of a request's body.
        request_seconds: after which a request is ended with an error.
        patience: seconds that a client may take to send a request's head, its body, to read what
            was sent, and between two requests of a connection.
        grace: seconds for requests under way when the server is told to stop.
        log: takes a line for every request, and what the server has to say; None: nothing is said.
        proxies: addresses or networks whose word of a client's address is believed.
        behind_keys: who stands before it has asked for a key already.
    """

    names: tuple[str, ...]
    api_keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    method: str = "auto"
    max_queue: int = 256
    max_tokens: int = 4096
    max_body: int = 4 << 20
    request_seconds: float = 600.0
    patience: float = 30.0
    grace: float = 30.0
    log: Callable[[str], None] | None = None
    proxies: tuple[str, ...] = ()
    behind_keys: bool = False

    @property
    def knows_clients(self) -> bool:
        """Whether every request has a key that was checked, so that texts may be kept by it."""
        return self.behind_keys or bool(self.api_keys)
