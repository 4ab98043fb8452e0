"""A thread that owns an engine, for callers in other threads and event loops."""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from leapdecode.core import StepEvent
from leapdecode.engine import Engine
from leapdecode.llm.result import Piece, Result
from leapdecode.llm.run import Run

LOG = logging.getLogger("leapdecode")
News = list[Piece] | Result | Exception


@dataclass(frozen=True, slots=True)
class Listener:
    """Who waits for a run: `deliver` is called in the engine's thread, with pieces if it is
    `streaming`.
    """

    run: Run
    deliver: Callable[[News], None]
    streaming: bool


class Worker:
    """Steps an engine while it has requests; the thread starts with the first one and ends with
    `close`.

    Args:
        engine: nobody else may touch it.
        lock: held while the engine steps, because others may use its models.
        model: the name that results carry.
    """

    def __init__(self, engine: Engine, lock: threading.RLock, model: str) -> None:
        self.engine, self.lock, self.model = engine, lock, model
        self.inbox: queue.SimpleQueue[Listener | int | None] = queue.SimpleQueue()
        self.listeners: dict[int, Listener] = {}
        self.thread: threading.Thread | None = None
        self.starting = threading.Lock()

    def submit(self, listener: Listener) -> None:
        """Decode a run; its pieces, then its result or its error, go to the listener."""
        with self.starting:
            self.inbox.put(listener)
            if self.thread is None:
                self.thread = threading.Thread(target=self._work, name="leapdecode", daemon=True)
                self.thread.start()

    def abort(self, request_id: int) -> None:
        """End a request whose caller has left; nothing is delivered."""
        self.inbox.put(request_id)

    def close(self) -> None:
        """End all requests, their listeners get what there is, and the thread; returns when it has
        ended.
        """
        with self.starting:
            if self.thread is not None:
                self.inbox.put(None)
                self.thread.join()
                self.thread = None

    def _work(self) -> None:
        """Step until `close` is called; an error of the engine itself ends all its requests."""
        while True:
            try:
                while self._read_inbox():
                    with self.lock:
                        events = self.engine.step()
                    for event in events:
                        self._handle(event)
                break
            except Exception as error:  # a scheduler's, say; no caller may wait for ever
                LOG.exception("the engine failed; its requests end with this error")
                self._end(error)
        self._end(None)

    def _read_inbox(self) -> bool:
        """Add and abort requests, wait while there are none; False once `close` was called."""
        while True:
            try:
                item = self.inbox.get(block=not self.engine.busy)
            except queue.Empty:
                return True
            if item is None:
                return False
            if isinstance(item, Listener):
                self._add(item)
            elif self.listeners.pop(item, None) is not None:
                with self.lock:
                    self.engine.abort(item)
                    self.engine.result(item)

    def _add(self, listener: Listener) -> None:
        try:
            with self.lock:
                self.engine.add(listener.run.request)
        except Exception as error:  # raised again, traceback included, in the caller's task
            self._deliver(listener, error)
        else:
            self.listeners[listener.run.request.id] = listener

    def _handle(self, event: StepEvent) -> None:
        listener = self.listeners.get(event.request_id)
        if listener is None:
            return
        ended = event.finish_reason is not None
        if listener.streaming and event.step is not None:
            self._deliver(listener, listener.run.pieces(event))
        if ended:
            self._finish(event.request_id)

    def _finish(self, request_id: int) -> None:
        listener, output = self.listeners.pop(request_id), self.engine.result(request_id)
        error = output.sequence.error
        self._deliver(listener, listener.run.result(output, self.model) if error is None else error)

    def _deliver(self, listener: Listener, news: News) -> None:
        try:
            listener.deliver(news)
        except RuntimeError:  # its event loop has ended
            self.abort(listener.run.request.id)

    def _end(self, error: Exception | None) -> None:
        """Close the engine; its listeners get `error`, or what there is of their texts."""
        with self.lock:
            self.engine.close()
        for request_id, listener in list(self.listeners.items()):
            if error is None:
                self._finish(request_id)
            else:
                self._deliver(listener, error)
        self.listeners.clear()
