"""Progress of long work on stderr: a line of text, or a progress bar on a terminal.

Work that ends within a second shows nothing. With the logger "leapdecode" left as it is, lines go
to stderr; with handlers they go to those, and with a level above INFO nowhere.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

LOG = logging.getLogger("leapdecode")
SILENT_SECONDS = 1.0  # work that ends earlier shows nothing
REPEAT_SECONDS = 10.0  # between two lines about how far the work is, where there is no bar
LINE_SECONDS = 30.0  # the same of a command that counts what it does; 0: a line for every update


def quiet() -> bool:
    """Whether nothing is to be shown: the logger's level is set above INFO."""
    return LOG.level > logging.INFO


def say(line: str) -> None:
    """Show the user a line."""
    if quiet():
        return
    if LOG.level == logging.NOTSET and not LOG.handlers:
        BARS.print(line)
    else:
        LOG.info("%s", line)


class Waiting:
    """`with Waiting("loading the model"):` says so once the work has lasted for a second.

    Args:
        sentence: what is being done, without a full stop.
        total: how much there is to do, in any unit, where that is known; `advance` counts it.
    """

    def __init__(self, sentence: str, total: float | None = None) -> None:
        self.sentence = sentence
        self.total = total
        self.done = 0.0
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.ended = False
        self.shown = False
        self.bar: Any = None  # the task's number among the bars
        self.timer: threading.Timer | None = None

    def __enter__(self) -> Waiting:
        self._again(SILENT_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.lock:
            self.ended = True
        if self.timer is not None:
            self.timer.cancel()
        if self.bar is not None:
            BARS.remove(self.bar)

    def advance(self, amount: float) -> None:
        """Count `amount` as done."""
        with self.lock:
            self.done += amount
            if self.bar is not None:
                BARS.update(self.bar, self.done)

    def show(self) -> None:
        """Say what is being done, and how far it is."""
        with self.lock:
            if self.ended or quiet():
                return
            if BARS.possible():
                self.bar = BARS.add(self.sentence, self.total, self.done)
            elif not self.shown or self.total:
                say(self._line())
                self._again(REPEAT_SECONDS)
            self.shown = True

    def _line(self) -> str:
        if not self.total or not self.shown:
            return f"{self.sentence} ..."
        share = min(1.0, self.done / self.total)
        left = _time_left(self.started, share, 1.0 - share) if share > 0.02 else ""
        return f"{self.sentence}: {share:.0%}{left}"

    def _again(self, seconds: float) -> None:
        self.timer = threading.Timer(seconds, self.show)
        self.timer.daemon = True
        self.timer.start()


class Lines:
    """Stands for rich's `Progress` where stderr is no terminal: a line every `LINE_SECONDS`.

    Args:
        doing: says at any time what is done; without it the last task's description does.
        writes: whether lines are written; of several processes that do the same, one writes them.
    """

    def __init__(self, doing: Callable[[], str] | None = None, writes: bool = True) -> None:
        self.doing = doing
        self.writes = writes
        self.description = "working"
        self.total: float | None = None
        self.completed = 0.0
        self.earlier = 0.0  # completed before the task began, by a run that this one goes on with
        self.began = time.monotonic()
        self.ended = threading.Event()

    def __enter__(self) -> Lines:
        if LINE_SECONDS and self.writes:
            threading.Thread(target=self._repeat, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()

    def add_task(self, description: str, total: float | None, completed: float = 0) -> int:
        self.description = description
        self.total = total
        self.completed = self.earlier = completed
        self.began = time.monotonic()
        return 0

    def update(
        self,
        task: int,
        *,
        advance: float = 0,
        completed: float | None = None,
        total: float | None = None,
        description: str | None = None,
    ) -> None:
        self.completed = self.completed + advance if completed is None else completed
        self.total = self.total if total is None else total
        self.description = description or self.description
        if self.writes and not LINE_SECONDS:
            say(self._line())

    def advance(self, task: int) -> None:
        self.update(task, advance=1)

    def _repeat(self) -> None:
        while not self.ended.wait(LINE_SECONDS):
            say(self._line())

    def _line(self) -> str:
        sentence = (self.doing() if self.doing else "") or self.description
        if not self.total:
            return f"{sentence} ..."
        line = f"{sentence}: {self.completed:,.0f} of {self.total:,.0f}"
        new = self.completed - self.earlier
        if new <= 0 or self.completed >= self.total:
            return line
        return line + _time_left(self.began, new, self.total - self.completed)


def _time_left(began: float, done: float, missing: float) -> str:
    """What a line says of the time that is left, at the pace since `began` (`time.monotonic`)."""
    seconds = (time.monotonic() - began) / done * missing
    duration = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f", about {duration} left"


class Bars:
    """The progress bars on a terminal, one for each piece of work that goes on."""

    def __init__(self) -> None:
        self.progress: Progress | None = None
        self.lock = threading.RLock()

    def possible(self) -> bool:
        """Whether stderr is a terminal."""
        return sys.stderr is not None and sys.stderr.isatty()

    def add(self, sentence: str, total: float | None, done: float) -> Any:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        with self.lock:
            if self.progress is None:
                columns = (
                    SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(20),
                    TimeElapsedColumn(), TimeRemainingColumn(),
                )  # fmt: skip
                self.progress = Progress(
                    *columns, console=Console(stderr=True), transient=True, refresh_per_second=4
                )
                self.progress.start()
            return self.progress.add_task(sentence, total=total, completed=int(done))

    def update(self, bar: Any, done: float) -> None:
        with self.lock:
            if self.progress is not None:
                self.progress.update(bar, completed=done)

    def remove(self, bar: Any) -> None:
        with self.lock:
            if self.progress is None:
                return
            self.progress.remove_task(bar)
            if not self.progress.tasks:
                self.progress.stop()
                self.progress = None

    def print(self, line: str) -> None:
        """Print a line above the bars."""
        with self.lock:
            if self.progress is not None:
                self.progress.console.print(line, markup=False, highlight=False)
            elif sys.stderr is not None:
                print(line, file=sys.stderr, flush=True)


BARS = Bars()  # one for the process: there is one terminal
