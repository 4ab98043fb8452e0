"""Runs the application: one line when it listens, and an orderly end."""

from __future__ import annotations

import asyncio
import faulthandler
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Protocol

import uvicorn
from starlette.types import ASGIApp

from leapdecode.llm.async_llm import AsyncLLM
from leapdecode.server.app import make_app
from leapdecode.server.connections import Connection
from leapdecode.server.service import Service
from leapdecode.server.settings import Settings

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LAST = 1.0  # seconds of the grace time that are left for errors to reach clients
STUCK = 1.0  # seconds beyond the grace time in which a process may still end by itself
FROZEN = 5.0  # seconds beyond that, where not even a thread of Python runs any more


class Served(Protocol):
    """What has requests under way.

    Attributes:
        settings: how long a stop waits, and who is told.
        draining: set when the server is told to stop.
    """

    settings: Settings
    draining: bool

    @property
    def unfinished(self) -> int: ...

    def stop_all(self) -> None:
        """End all that is under way with an error."""
        ...


class LastResort:
    """Ends the process when its time is over, whatever its threads do, and says where they are.

    Attributes:
        done: set when nothing is left to be done; the exit code is 0 then, and else 1.
    """

    def __init__(self) -> None:
        self.done = False

    def arm(self, seconds: float) -> None:
        """End the process after so many seconds."""
        timer = threading.Timer(seconds, self._exit)
        timer.daemon = True
        timer.start()
        # in C, for a thread that never gives the interpreter's lock back
        faulthandler.dump_traceback_later(seconds + FROZEN, exit=True, file=sys.__stderr__ or 2)

    def disarm(self) -> None:
        """Nothing is left to be done. Only threads that the interpreter joins are still watched:
        its own end can take seconds.
        """
        self.done = True
        faulthandler.cancel_dump_traceback_later()

    def _exit(self) -> None:
        faulthandler.dump_traceback(sys.__stderr__ or 2)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # closed, or nobody reads it
                stream.flush()
        os._exit(0 if self.done else 1)


class Server(uvicorn.Server):
    """uvicorn's, which lets requests under way finish, and then ends those that have not."""

    def __init__(
        self, config: uvicorn.Config, served: Served, on_ready: Callable[[str, int], None],
        last_resort: LastResort | None,
    ) -> None:  # fmt: skip
        super().__init__(config)
        self.served, self.on_ready, self.last_resort = served, on_ready, last_resort

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self.on_ready(host, port)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and Ctrl-C end the server in order, and the process with 0: it was asked to."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop. The process ends in time even where a thread of native code does not."""
        if self.last_resort is not None and not self.should_exit:
            self.last_resort.arm(self.served.settings.grace + STUCK)
        self.force_exit = self.should_exit  # the second signal
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.served.draining = True
        self._log_stopping()
        grace = max(self.served.settings.grace - LAST, 0)
        timer = asyncio.get_running_loop().call_later(grace, self._end_all)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()

    def _end_all(self) -> None:
        """End what is under way with an error, and connections whose requests never came whole."""
        self.served.stop_all()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.abandon()

    def _log_stopping(self) -> None:
        """Say what a stopping server waits for."""
        under_way, log = self.served.unfinished, self.served.settings.log
        if log is not None and under_way:
            log(
                f"stopping: {under_way} text{'s' * (under_way > 1)} under way, which "
                f"{'have' if under_way > 1 else 'has'} {self.served.settings.grace:.0f} seconds; "
                "a second signal ends them now"
            )


def serve(
    llm: AsyncLLM, settings: Settings, listener: socket.socket,
    on_ready: Callable[[str, int], None],
) -> None:  # fmt: skip
    """Serve at a bound socket until SIGTERM or Ctrl-C; `on_ready` is told host and port."""
    service = Service(llm, settings)
    last_resort = LastResort()

    async def run() -> None:
        try:
            await listen(make_app(service), service, listener, on_ready, last_resort)
        finally:
            await llm.close()

    try:
        asyncio.run(run())
    finally:
        service.close()
        last_resort.disarm()


def configured(app: ASGIApp, settings: Settings) -> uvicorn.Config:
    """uvicorn's configuration: h11 limits heads, and forwarded addresses are believed of known
    proxies alone.
    """
    connection: Any = partial(Connection, patience=settings.patience)
    return uvicorn.Config(
        app, http=connection, log_level="warning", lifespan="off", ws="none",
        timeout_graceful_shutdown=max(int(settings.grace), 1),
        timeout_keep_alive=math.ceil(settings.patience), access_log=False, server_header=False,
        proxy_headers=bool(settings.proxies), forwarded_allow_ips=list(settings.proxies),
    )  # fmt: skip


async def listen(
    app: ASGIApp, served: Served, listener: socket.socket, on_ready: Callable[[str, int], None],
    last_resort: LastResort | None = None,
) -> None:  # fmt: skip
    """Run an application at a bound socket until SIGTERM or Ctrl-C.

    With a `last_resort` a signal ends the process soon after the grace time, whatever its threads
    do.
    """
    config = configured(app, served.settings)
    await Server(config, served, on_ready, last_resort).serve(sockets=[listener])
