"""HTTP connections that a client cannot hold for nothing, before anybody knows who it is."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

TAKEN = 64 << 10  # bytes that a client reads within its time, or it does not read


class Connection(H11Protocol):
    """uvicorn's, which gives a client some seconds for whatever it has to do.

    A request's head has to come whole within that time, counted from the connection's beginning or
    from the end of the last answer, and what is left of an answer has to be read. Bodies and
    streamed answers have the same time where they are read and written (`streams.py`). h11 closes
    a connection whose head takes more than 64 KiB.
    """

    def __init__(self, *arguments: Any, patience: float, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.patience = patience
        self.timer: asyncio.TimerHandle | None = None
        self.unread = 0  # bytes of answers that wait to be sent, when the timer was set

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        self._cancel()
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def abandon(self) -> None:
        """End the connection, unless a request has come whole and its answer is under way."""
        cycle = self.cycle
        if (
            cycle is None
            or cycle.response_complete
            or (cycle.more_body and not cycle.response_started)
        ):
            self.transport.abort()

    def _watch(self) -> None:
        """Count the time while no request is under way; bytes that come do not begin it anew."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel()
        elif self.timer is None:
            self.unread = self.transport.get_write_buffer_size()
            self.timer = self.loop.call_later(self.patience, self._end)

    def _cancel(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _end(self) -> None:
        """The time is over: only a client that reads gets more."""
        self.timer = None
        if 0 < self.transport.get_write_buffer_size() <= self.unread - TAKEN:
            self._watch()
        else:
            self.transport.abort()
