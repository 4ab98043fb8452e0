"""Documents on the terminal: tables, remarks, and where the page lies."""

from pathlib import Path
from typing import Any

import typer

from leapdecode.cli.common import console, print_line

# columns of the terminal that a name or a number has before it is folded
MOST_NAME = 14
MOST_NUMBER = 9


def show(report: dict[str, Any], folder: Path) -> None:
    """Print the table of all rows, what is to be known of it, and the page's place."""
    from leapdecode_bench.measure.cells import COLUMNS, short_names
    from leapdecode_bench.measure.pages import table_of

    names = short_names([row["method"] for row in report["rows"]])
    rows = [row | {"method": name} for row, name in zip(report["rows"], names, strict=True)]
    show_table(table_of(COLUMNS, rows, names=2))
    for line in (*remarks(report), str(folder / "report.html")):
        print_line(line)


def show_table(table: Any) -> None:
    """Print a table of a page, with a gap where the first name changes."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=table.title or None, box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(table.head):
        longest = max((len(row[number]) for row in table.rows), default=0)
        is_name = number < table.names
        shown.add_column(
            name,
            justify="left" if is_name else "right",
            overflow="fold",
            min_width=min(longest, MOST_NAME if is_name else MOST_NUMBER),
        )
    for row, following in zip(table.rows, [*table.rows[1:], None], strict=True):
        ends = table.names > 1 and (following is None or following[0] != row[0])
        shown.add_row(*map(Text, row), end_section=ends)
    console().print(shown)


def remarks(report: dict[str, Any]) -> list[str]:
    """What stands under the table: shared options, the run's note, what a speed-up is."""
    from leapdecode_bench.measure.cells import shared_options

    shared = shared_options([row["method"] for row in report["rows"]])
    lines = [f"every {name} with {':'.join(options)}" for name, options in shared.items()]
    lines += [report["run"]["note"]] if report["run"].get("note") else []
    for task, value in report["run"].get("perplexity", {}).items():
        lines.append(f"perplexity of {task}: {value:.2f} per token")
    return [*lines, "speed-up over plain decoding: median of paired ratios, with its 95% interval"]


def note_plots() -> None:
    """Say on stderr that there are no plots, where they cannot be drawn."""
    from leapdecode_bench.measure.publish import available
    from leapdecode_bench.measure.report import NO_PLOTS

    if not available():
        typer.echo(f"note: {NO_PLOTS[0].lower()}{NO_PLOTS[1:]}", err=True)


def note_rows(workloads: list[Any]) -> None:
    """Say on stderr which rows of public sets were left out, and why."""
    for note in [note for workload in workloads for note in workload.notes]:
        typer.echo(f"note: {note}", err=True)
