"""Tables of a report on the terminal, and where its page lies."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

PIPED = 118  # columns, where nobody says how wide the output is


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
