"""What the `fastcot` commands are given: options, questions, plans."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from leapdecode.cli.common import parse_options
from leapdecode.errors import OptionError

T = TypeVar("T", int, float)
SAYING = "So the answer is"  # the answer trigger of the paper

TaskOption = Annotated[
    str, typer.Option(help="math, choice, or a .jsonl file of questions", metavar="TASK|FILE")
]
ShotsOption = Annotated[int, typer.Option(help="worked examples before the question")]
WindowOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto",
        help="guesses of jacobi; auto: as many as pay on this machine; default: 16",
    ),
]
DecodedByOption = Annotated[
    str, typer.Option(help="what decodes the rationale; its pending guesses are the glimpse")
]
TriggerOption = Annotated[str, typer.Option(help="the words behind which the answer stands")]
MaxLossOption = Annotated[
    float, typer.Option(help="accuracy that may be lost, as a share: 0.03 is 3 points")
]
BatchSizeOption = Annotated[int, typer.Option(min=1, help="questions answered at a time")]
StepOption = Annotated[
    int, typer.Option(help="ask for answers after every so many iterations when calibrating")
]


def plan_given(
    method: str, window: str | None, option: Sequence[str] | None, **settings: Any
) -> Any:
    """The plan of --method, --window and -o; raises user errors."""
    from leapdecode.reasoning.fastcot import plan_of
    from leapdecode.reasoning.fastcot.answering import WINDOW

    options = parse_options(method, list(option or []))
    if method != "jacobi" and window is not None:
        raise OptionError(f"--window is jacobi's; {method} has options of its own (-o)")
    return plan_of(method, WINDOW if window is None else window_of(window), options, **settings)


def window_of(written: str) -> int | str:
    """`--window` as a number or "auto"."""
    if written == "auto":
        return written
    try:
        found = int(written)
    except ValueError:
        raise OptionError(f"--window {written!r} must be a whole number or auto") from None
    if found < 1:
        raise OptionError(f"--window {found} must be at least 1")
    return found


def numbers(option: str, written: str, kind: Callable[[str], T], least: T) -> list[T]:
    """Numbers of an option by comma, each once; raises `OptionError`."""
    try:
        found = [kind(part) for part in written.split(",") if part.strip()]
    except ValueError:
        found = []
    if not found or min(found) < least:
        what = "numbers" if kind is float else "whole numbers"
        raise OptionError(f"{option} {written!r} must be {what} of at least {least}, by comma")
    return list(dict.fromkeys(found))


def source_of(task: str, shots: int) -> Any:
    """Where questions come from; raises user errors."""
    from leapdecode.reasoning.fastcot import find

    if shots < 0:
        raise OptionError(f"--shots {shots} must be at least 0")
    return find(task)


def checked_count(option: str, count: int) -> int:
    """A number of questions; raises `OptionError` below 1."""
    if count < 1:
        raise OptionError(f"{option} {count} must be at least 1")
    return count
