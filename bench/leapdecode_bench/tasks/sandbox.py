"""Runs Python that a model wrote, in a process that can compute and print and little else.

What holds a program back, from the outside in:

- a wall-clock limit, after which its whole process group is killed; limits of the kernel on
  processor time, memory, output, new processes and new file descriptors (none at all: no file,
  socket or pipe can be opened);
- on Linux (x86-64, ARM64) a system-call filter, where the kernel allows one: memory, clocks,
  reading and writing what is open, and exiting. Nothing else reaches the kernel, as root or not;
- an audit hook that refuses every audited action of the interpreter outside a short list, and
  imports outside `sandbox_child.MODULES`.

This is a guard rail, not a jail. Where the filter is missing (macOS, other processors, a kernel
that refuses it) the hook stands alone against a program that goes looking for a way around it: it
sees what CPython audits, and some harmless-looking calls are not audited. macOS does not hold a
process to the limit of memory either. It is good for code that a model wrote by mistake, not for
code that an attacker wrote with time to spare; give that to a virtual machine.

The program learns no expected result: `call` returns its values and the caller compares them,
so that leaving early, patching built-ins or printing a verdict cannot pass for a right answer.
"""

import ast
import contextlib
import marshal
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from leapdecode.errors import LeapdecodeError

Reason = Literal["", "timeout", "memory", "output", "refused", "error"]
CHILD = Path(__file__).with_name("sandbox_child.py")
OUTPUT_LIMIT = 64 * 1024  # bytes a program may print, and bytes its results may take
FAILURES: dict[str, Reason] = {
    "memory": "memory",
    "output": "output",
    "refused": "refused",
    "error": "error",
}


class SandboxUnavailable(LeapdecodeError):
    """This system cannot limit a process."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended. `ok`: it ran to its end (by its own account); `reason` is "" then."""

    ok: bool
    stdout: str = ""
    error: str = ""
    reason: Reason = ""


def run(source: str, *, seconds: float = 2.0, memory_mib: int = 256) -> Outcome:
    """Run a program; what it printed and how it ended.

    Raises `SandboxUnavailable`, and nothing for any source.
    """
    return _perform(source, None, (), seconds, memory_mib)[0]


def call(
    source: str,
    function: str,
    calls: Sequence[tuple[Any, ...]],
    *,
    seconds: float = 2.0,
    memory_mib: int = 256,
) -> list[Any] | Outcome:
    """Run a program, then its `function` on each tuple of arguments.

    The results, or the outcome where anything failed. Arguments and results are built-in values
    (numbers, text, lists, tuples, sets, dictionaries); a subclass comes back as its built-in base,
    so a Counter as a dict. All calls together share one limit of time.
    """
    outcome, results = _perform(source, function, calls, seconds, memory_mib)
    if not outcome.ok:
        return outcome
    try:
        values = ast.literal_eval(results)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        values = None
    if not isinstance(values, list) or len(values) != len(calls):
        return Outcome(False, outcome.stdout, "the results are not plain values", "error")
    return values


def _perform(
    source: str,
    function: str | None,
    calls: Sequence[tuple[Any, ...]],
    seconds: float,
    memory_mib: int,
) -> tuple[Outcome, str]:
    """Run the child on its orders; the outcome, and the text of the results."""
    if os.name != "posix":
        raise SandboxUnavailable(
            "running model-written code needs a system with process limits (Linux or macOS)"
        )
    limits = (math.ceil(seconds) + 1, memory_mib * 2**20, OUTPUT_LIMIT)
    orders = (source, function, list(calls), *limits)
    printed, report, status = _supervise(marshal.dumps(orders), seconds)
    word, _, text = report.partition("\n")
    if status is None:
        return Outcome(False, printed, f"no end within {seconds:g} seconds", "timeout"), ""
    if word == "ok" and len(report.encode()) < OUTPUT_LIMIT:
        return Outcome(True, printed), text
    if word in ("ok", "output") or len(printed.encode()) >= OUTPUT_LIMIT:
        error = f"more than {OUTPUT_LIMIT // 1024} KiB of output"
        return Outcome(False, printed, error, "output"), ""
    if word in FAILURES:
        return Outcome(False, printed, text, FAILURES[word]), ""
    return Outcome(False, printed, f"the process ended early, with status {status}", "error"), ""


def _supervise(orders: bytes, seconds: float) -> tuple[str, str, int | None]:
    """Give the child its orders; what it printed, its report, its exit status.

    The status is None if it was too late. Input and outputs are nameless files: the kernel's limit
    on a file's size bounds what is stored, and no reader is needed.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as printed,
        tempfile.TemporaryFile() as report,
    ):
        stdin.write(orders)
        stdin.seek(0)
        script = [str(CHILD), str(report.fileno())]
        status = _run_to_the_end(script, folder, stdin, printed, report, seconds)
        return _start_of(printed), _start_of(report), status


def _run_to_the_end(
    script: list[str],
    folder: str,
    stdin: IO[bytes],
    printed: IO[bytes],
    report: IO[bytes],
    seconds: float,
) -> int | None:
    """Start the child, wait for its end or the time limit, and kill what is left.

    Its exit status, None if too late. The child's end shows as the end of a pipe that only it
    holds, while its process number is not yet free for others.
    """
    ended, held = os.pipe()
    try:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-X", "utf8", *script],
                stdin=stdin,
                stdout=printed,
                stderr=subprocess.DEVNULL,
                pass_fds=(report.fileno(), held),
                cwd=folder,
                env={},
                start_new_session=True,
            )
        finally:
            os.close(held)
        try:
            in_time = _readable(ended, seconds)
        finally:
            # PermissionError: on macOS, where only a zombie is left in the group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        return status if in_time else None
    finally:
        os.close(ended)


def _readable(descriptor: int, seconds: float) -> bool:
    """Wait until there is something to read, or the other end has closed.

    False if the time runs out.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _start_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(OUTPUT_LIMIT).decode("utf-8", "replace")
