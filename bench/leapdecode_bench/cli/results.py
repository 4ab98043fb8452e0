"""A bench's document on the terminal: the table, and where its page lies."""

import sys
from pathlib import Path
from typing import Any

import typer

from leapdecode.cli.common import print_table


def show(report: dict[str, Any], folder: Path) -> None:
    """Print the table of all rows, what is to be known of it, and the page's place."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from leapdecode_bench.measure.cells import HEAD, cells, short_names

    width = None if sys.stdout.isatty() else max(Console().width, 118)
    console = Console(highlight=False, width=width)
    columns = [Column(name, overflow="fold", justify="right") for name in HEAD]
    columns[0].justify = columns[1].justify = "left"
    columns[1].min_width, columns[3].min_width = 14, 9
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    rows, names = report["rows"], short_names([row["method"] for row in report["rows"]])
    for row, name, after in zip(rows, names, [*rows[1:], {"task": None}], strict=True):
        ends = after["task"] != row["task"]
        table.add_row(*map(escape, cells(row | {"method": name})), end_section=ends)
    console.print(table)
    for line in (*remarks(report), str(folder / "report.html")):
        console.print(escape(line), soft_wrap=True)


def show_table(table: Any) -> None:
    """Print a table of a page."""
    print_table(table.head, table.rows, table.names, table.title or None)


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
