"""What all commands share: error lines, JSON, tables, progress, prompts from stdin."""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from leapdecode.errors import LeapdecodeError, OptionError, PromptError

EXAMPLES = 10_000  # held-out questions of a task that a command may name
PIPED = 118  # columns, where nobody says how wide the output is


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn user errors into one line on stderr and the error's exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except LeapdecodeError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("\ninterrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(0) from None
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            typer.echo(f"error: cannot write the output{where}: {error.strerror}", err=True)
            raise typer.Exit(1) from None

    return run


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, ensure_ascii=False))


def counting_progress(doing: Callable[[], str] | None = None) -> Any:
    """Counts and the time that is left, on stderr: a progress bar on a terminal, elsewhere a line
    now and then (`waits.Lines`).

    `doing` says at any time what is done; without it the bar's description does.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    from leapdecode.cli.model_options import first_process
    from leapdecode.model.waits import Lines

    console = Console(stderr=True)
    if not console.is_terminal:
        return Lines(doing, writes=first_process())

    class Doing(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text((doing() if doing else "") or task.description)

    columns = (
        Doing(),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)


def read_prompt(prompt: str, what: str = "prompt") -> str:
    """The prompt itself; for "-" what stdin holds, its last newline included."""
    if prompt != "-":
        return prompt
    if sys.stdin.isatty():
        typer.echo(f"type the {what}; Ctrl-D ends it", err=True)
    text = sys.stdin.buffer.read()
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise PromptError(
            f"stdin is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error


def checked_example(number: int | None) -> int:
    """`--example` as the number of a held-out question; raises `OptionError` for others.

    Questions are drawn one after the other, so their number is limited.
    """
    if number is None or not 0 <= number < EXAMPLES:
        raise OptionError(f"--example {number} must be from 0 to {EXAMPLES - 1}")
    return number


def check_place(option: str, path: Path) -> None:
    """Raise `PromptError` where a file of this name cannot be written."""
    if path.is_dir() or not path.parent.is_dir():
        raise PromptError(
            f"{option} {path} cannot be written: it is a folder, or its folder does not exist; "
            "name a file in a folder that exists"
        )


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], names: int = 1, title: str | None = None
) -> None:
    """Texts in columns; the first `names` are names, the others numbers."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, box=None)
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number < names else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console().print(table)


def print_page(folder: Path) -> None:
    """Where the page of a report is."""
    print_line(str(folder / "report.html"))


def print_line(text: str, style: str = "") -> None:
    """A line that is not broken."""
    from rich.text import Text

    console().print(Text(text, style=style), soft_wrap=True)


def console() -> Any:
    """Of stdout; wide enough for a table where that is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else max(Console().width, PIPED)
    return Console(highlight=False, width=width)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner on stderr where that is a terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
