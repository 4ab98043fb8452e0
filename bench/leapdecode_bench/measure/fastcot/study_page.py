"""A study as files: compare.json, report.md, report.html and its picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leapdecode_bench.measure.fastcot.pictures import figure_lines, line_of
from leapdecode_bench.measure.pages import Block, Table, Words
from leapdecode_bench.measure.plots import available, figure_row_costs
from leapdecode_bench.measure.publish import paint, publish

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Kind:
    """How the rows of a study are shown.

    Attributes:
        head: of the table; the first `names` columns are names.
        cells: a row as texts.
        figure: of all rows.
    """

    head: Sequence[str]
    cells: Callable[[Mapping[str, Any]], Sequence[str]]
    figure: Callable[[Rows], Any]
    names: int = 1


def lines_by_iterations(rows: Rows) -> Any:
    """Accuracy against iterations, a line per name."""
    names = dict.fromkeys(row["line"] for row in rows)
    lines = {name: line_of([row for row in rows if row["line"] == name]) for name in names}
    return figure_lines(lines, "iterations")


def lines_by_share(rows: Rows) -> Any:
    """Accuracy against the share that is left, a line per pattern."""
    names = dict.fromkeys(row["pattern"] for row in rows)
    lines = {
        name: [(100 * row["left"], row["accuracy"]) for row in rows if row["pattern"] == name]
        for name in names
    }
    return figure_lines(lines, "% of the rationale that is left")


KINDS: Mapping[str, Kind] = {
    "row_costs": Kind(
        ("cached tokens", "rows", "milliseconds", "of one row's"),
        lambda row: (
            str(row["context"]), str(row["rows"]), f"{row['milliseconds']:.2f}",
            f"{row['ratio']:.2f}x",
        ),
        lambda rows: figure_row_costs({"run": {"row_costs": list(rows)}}),
    ),
    "curves": Kind(
        ("line", "iterations", "accuracy", "exact", "approximate", "ended"),
        lambda row: (
            row["line"], str(row["iterations"]), f"{100 * row['accuracy']:.1f}%",
            f"{row['exact']:.1f}", f"{row['approximate']:.1f}", f"{100 * row['ended']:.0f}%",
        ),
        lines_by_iterations,
    ),
    "corrupted": Kind(
        ("pattern", "left", "accuracy", "interval", "answers"),
        lambda row: (
            row["pattern"], f"{100 * row['left']:.0f}%", f"{100 * row['accuracy']:.1f}%",
            " to ".join(f"{100 * end:.1f}" for end in row["interval"]), str(row["answers"]),
        ),
        lines_by_share,
    ),
}  # fmt: skip


def document(preset: str, task: str | None, rows: Rows, run: Mapping[str, Any]) -> dict[str, Any]:
    """What `--json` prints."""
    return {"schema": 1, "preset": preset, "task": task, "rows": list(rows), "run": dict(run)}


def write(folder: Path, report: Mapping[str, Any], study: str, summary: str) -> None:
    """The document, the page and its picture."""
    kind, rows = KINDS[study], report["rows"]
    cells = sorted((kind.cells(row) for row in rows), key=lambda row: row[0])
    drawn = paint({study: (summary, lambda: kind.figure(rows))}) if available() else {}
    of = f" on {report['task']}" if report["task"] else ""
    title = f"{report['run']['model']}: {report['preset']}{of}"
    page: list[Block] = [Words(summary), Table(kind.head, cells, names=kind.names)]
    publish(folder / "compare.json", title, report, page, drawn)
