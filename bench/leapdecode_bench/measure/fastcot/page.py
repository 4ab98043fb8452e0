"""Comparisons and studies of FastCoT as files: the document, the page, and its plots.

The plots are saved time against loss, accuracy against iterations (Figures 6 and 8), and accuracy
against the share of a rationale that is left (Figure 5).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.reasoning.fastcot.calibration import Calibration
from leapdecode_bench.measure.canvas import FAINT, INK, add_legend, chart, style_of
from leapdecode_bench.measure.cells import NONE, compact, percent, seconds, shown, yes_or_no
from leapdecode_bench.measure.fastcot.contenders import label_of
from leapdecode_bench.measure.fastcot.records import BatchRecord, ContenderKey
from leapdecode_bench.measure.fastcot.summary import key_of, rows
from leapdecode_bench.measure.pages import Block, Columns, Heading, Words, table_of
from leapdecode_bench.measure.plots import figure_row_costs
from leapdecode_bench.measure.publish import Figures, Pictures, publish
from leapdecode_bench.measure.report import what_was_run, with_captions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = Mapping[str, Any]
Line = Sequence[tuple[float, float]]
SAVED = "Time saved over plain whole rationales against the loss of accuracy, with 95% intervals"
ITERATIONS = "Accuracy against iterations on the questions for calibration (FastCoT, Figure 6)"
COLUMNS: Columns = {
    "contender": lambda row: label_of(*key_of(row)),
    "accuracy": lambda row: points(row["accuracy"]),
    "loss": lambda row: between(row["loss"], row["loss_interval"], ""),
    "time saved": lambda row: between(row["saved_time"], row["saved_time_interval"], "%"),
    "of totals": lambda row: share_of(row["saved_of_totals"]),
    "over fastest": lambda row: share_of(row["saved_over_fastest"]),
    "seconds": lambda row: compact(row["seconds"]),
    "saved seconds": lambda row: shown(row["saved_seconds"], "{:.2f}"),
    "IS/TI": lambda row: f"{row['iterations_saved']}/{row['iterations']}",
    "tokens": lambda row: str(row["tokens"]),
    "approximate": lambda row: str(row["approximate"]),
    "exact part equal": lambda row: yes_or_no(row["rationale_equal"]),
}
SHORT = ("contender", "accuracy", "loss", "time saved", "of totals", "seconds", "IS/TI")
ON_A_TERMINAL: Columns = {name: COLUMNS[name] for name in SHORT}
HOW_TO_READ = (
    "Every batch of questions was answered by all contenders in turn, in an order drawn for it. "
    "Time saved: the median over batches of the share of cot's time that a contender did not need; "
    "loss: the mean over questions of cot's score less the contender's, in points of accuracy; "
    "both with 95% intervals. Answers count in all figures, on both sides.",
    "Of totals: the share of the time of all batches together, the paper's time ratio. Over "
    "fastest: the same against cot or cot-inexact, whichever is faster. Where the model is decoded "
    "exactly, cot pays for that and cot-inexact does not.",
    "IS/TI, as in the paper: tokens less forwards, and forwards that gave tokens. Approximate: "
    "tokens that stood between exact part and trigger. Exact part equal: whether every exact part "
    "is what the plain rationale begins with, and all of it where nothing was cut.",
    "All contenders but cot and cot with a lossless method may answer wrongly where the whole "
    "rationale would have led to the right answer, because they read a part of it.",
)
PARTS = (
    "Seconds by part (the paper's Table 2). Inference is the target's forwards, guessing the "
    "method's own work with the reading of answers, choosing the tokens at the nodes (the paper's "
    "Decode and Context Decode), cache what keeps the caches in order (its Strip KV). Type 1 "
    "padding, of caches, does not occur: every text has slots of its own in one cache. Type 2 "
    "padding, of windows, is a part of inference: padded rows are those that only bring the texts "
    "of a batch to one width."
)


def document(
    records: Sequence[BatchRecord],
    keys: Sequence[ContenderKey],
    calibrations: Mapping[str, Calibration],
    run: Mapping[str, Any],
) -> dict[str, Any]:
    """What `--json` prints; `calibrations` by method, the first of them is `calibration` too."""
    calibrations_by_method = {
        method: asdict(calibration) for method, calibration in calibrations.items()
    }
    return {
        "schema": 1,
        "task": run["task"],
        "rows": rows(records, keys),
        "calibration": next(iter(calibrations_by_method.values()), None),
        "calibrations": calibrations_by_method,
        "run": dict(run),
    }


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """The document, the page and its plots."""
    title = f"{report['run']['model']}: FastCoT on {report['task']}"
    publish(folder / "compare.json", title, report, partial(blocks, report), figures_of(report))


def blocks(report: Mapping[str, Any], pictures: Pictures) -> list[Block]:
    """The page: figures, how to read them, where the time went, the bound."""
    rows = report["rows"]
    page: list[Block] = [table_of(COLUMNS, rows), *map(Words, HOW_TO_READ)]
    page += [Heading("Where the time went"), Words(PARTS), table_of(time_columns(rows), rows)]
    calibrations = report["calibrations"]
    if calibrations:
        page.append(Heading("Bounds"))
        page += [calibrated(method, calibration) for method, calibration in calibrations.items()]
    return [*page, *with_captions(pictures), *what_was_run(report["run"])]


def time_columns(rows: Sequence[Row]) -> Columns:
    """The seconds of each part."""

    def part(name: str) -> Callable[[Row], str]:
        return lambda row: seconds(row["time_composition"][name])

    parts = rows[0]["time_composition"] if rows else ()
    return {
        "contender": COLUMNS["contender"],
        **{name: part(name) for name in parts},
        "total": COLUMNS["seconds"],
        "cache by inference": lambda row: cache_share(row["time_composition"], "inference"),
        "cache by total": lambda row: cache_share(row["time_composition"]),
        "padded rows": lambda row: percent(row["padded_rows"]),
    }


def cache_share(parts: Mapping[str, float], *of: str) -> str:
    """The time that keeping the caches takes, as a share of that of the parts `of`, or of all."""
    total = sum(parts[part] for part in of or parts)
    return f"{100 * parts['cache'] / total:.1f}%" if total else NONE


def calibrated(method: str, calibration: Mapping[str, Any]) -> Words:
    """The bound of a method, and how it was found."""
    max_loss = f"{100 * calibration['max_loss']:.1f} points"
    loss = f"{100 * calibration['loss']:.1f} points"
    return Words(
        f"{method}: {calibration['iterations']} iterations, by {calibration['questions']} other "
        f"questions: the least bound from which on accuracy is at most {max_loss} below that of "
        f"whole rationales ({percent(calibration['accuracy'])}); at the bound the loss is {loss}."
    )


def points(share: float) -> str:
    """An accuracy."""
    return f"{100 * share:.1f}%"


def share_of(share: float | None) -> str:
    """A share of a time; it may be below zero."""
    return shown(None if share is None else 100 * share, "{:.1f}%")


def between(share: float | None, interval: Sequence[float] | None, unit: str) -> str:
    """A share in hundredths with its interval, where that has a width."""
    if share is None or interval is None:
        return NONE
    low, high = interval
    width = f" {100 * low:.1f} to {100 * high:.1f}" if low < high else ""
    return shown(100 * share, "{:.1f}") + unit + width


def figures_of(report: Mapping[str, Any]) -> Figures:
    """The plots that a comparison has the figures for."""
    figures: dict[str, Any] = {}
    rows = [row for row in report["rows"] if row["saved_time"] is not None]
    if rows:
        figures["saved_time"] = (SAVED, partial(figure_saved, rows))
    calibrations = report["calibrations"]
    if calibrations:
        lines = {
            method: line_of(calibration["curve"]) for method, calibration in calibrations.items()
        }
        level = max(
            calibration["accuracy"] - calibration["max_loss"]
            for calibration in calibrations.values()
        )
        bounds = [calibration["iterations"] for calibration in calibrations.values()]
        draw = partial(figure_lines, lines, "iterations", level, bounds)
        figures["iterations"] = (ITERATIONS, draw)
    return figures


def line_of(curve: Sequence[Mapping[str, Any]]) -> Line:
    """The points of a calibration's curve."""
    return [(point["iterations"], point["accuracy"]) for point in curve]


def figure_saved(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A point per row; those of one contender are joined in their order."""
    figure, axes = chart(6.5, 3.6)
    names = list(dict.fromkeys(row["method"] for row in rows))
    for number, name in enumerate(names):
        style = style_of(number)
        rows_of_name = [row for row in rows if row["method"] == name]
        x, y = ([100 * row[part] for row in rows_of_name] for part in ("loss", "saved_time"))
        axes.plot(x, y, **style, markersize=5, linewidth=1)
        for row, loss, saved in zip(rows_of_name, x, y, strict=True):
            bar = {"color": style["color"], "linewidth": 0.5}
            axes.plot([100 * end for end in row["loss_interval"]], [saved, saved], **bar)
            axes.plot([loss, loss], [100 * end for end in row["saved_time_interval"]], **bar)
    axes.axhline(0, color=FAINT, linewidth=1, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=1, zorder=0)
    axes.set_xlabel("loss, in points of accuracy")
    axes.set_ylabel("% of the time saved")
    add_legend(figure, [(style_of(number), name) for number, name in enumerate(names)])
    return figure


def figure_lines(
    lines: Mapping[str, Line],
    x_label: str,
    level: float | None = None,
    marks: Sequence[float] = (),
) -> Figure:
    """Accuracy, a line per name; an accuracy `level` and a place on the x axis of each line are
    marked.
    """
    figure, axes = chart(6.5, 3.2)
    for number, points in enumerate(lines.values()):
        x, y = zip(*points, strict=True)
        axes.plot(x, [100 * value for value in y], **style_of(number), markersize=3)
    if level is not None:
        axes.axhline(100 * level, color=FAINT, linewidth=1)
    for number, mark in enumerate(marks):
        axes.axvline(mark, color=style_of(number)["color"], linewidth=0.5)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(x_label)
    axes.set_ylabel("accuracy, %", color=INK)
    add_legend(figure, [(style_of(number), name) for number, name in enumerate(lines)])
    return figure


@dataclass(frozen=True)
class Study:
    """How the rows of a study are shown: its table, and the plot of all rows."""

    columns: Columns
    figure: Callable[[Sequence[Row]], Figure | None]


def lines_by_iterations(rows: Sequence[Row]) -> Figure:
    """Accuracy against iterations, a line per name."""
    names = dict.fromkeys(row["line"] for row in rows)
    lines = {name: line_of([row for row in rows if row["line"] == name]) for name in names}
    return figure_lines(lines, "iterations")


def lines_by_share(rows: Sequence[Row]) -> Figure:
    """Accuracy against the share that is left, a line per pattern."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(row["pattern"], []).append((100 * row["left"], row["accuracy"]))
    return figure_lines(lines, "% of the rationale that is left")


STUDIES: Mapping[str, Study] = {
    "row_costs": Study(
        {
            "cached tokens": lambda row: str(row["context"]),
            "rows": lambda row: str(row["rows"]),
            "milliseconds": lambda row: f"{row['milliseconds']:.2f}",
            "of one row's": lambda row: f"{row['ratio']:.2f}x",
        },
        lambda rows: figure_row_costs({"run": {"row_costs": list(rows)}}),
    ),
    "curves": Study(
        {
            "line": lambda row: row["line"],
            "iterations": lambda row: str(row["iterations"]),
            "accuracy": lambda row: points(row["accuracy"]),
            "exact": lambda row: f"{row['exact']:.1f}",
            "approximate": lambda row: f"{row['approximate']:.1f}",
            "ended": lambda row: percent(row["ended"]),
        },
        lines_by_iterations,
    ),
    "corrupted": Study(
        {
            "pattern": lambda row: row["pattern"],
            "left": lambda row: percent(row["left"]),
            "accuracy": lambda row: points(row["accuracy"]),
            "interval": lambda row: " to ".join(f"{100 * end:.1f}" for end in row["interval"]),
            "answers": lambda row: str(row["answers"]),
        },
        lines_by_share,
    ),
}


def study_document(
    preset: str, task: str | None, rows: Sequence[Row], run: Mapping[str, Any]
) -> dict[str, Any]:
    """What `--json` prints."""
    return {"schema": 1, "preset": preset, "task": task, "rows": list(rows), "run": dict(run)}


def write_study(folder: Path, report: Mapping[str, Any], name: str, summary: str) -> None:
    """The document, the page and its plot."""
    study = STUDIES[name]
    rows = report["rows"]
    columns = study.columns
    first = next(iter(columns.values()))
    task = f" on {report['task']}" if report["task"] else ""
    title = f"{report['run']['model']}: {report['preset']}{task}"

    def page(pictures: Pictures) -> list[Block]:
        table = table_of(columns, sorted(rows, key=first))
        run = what_was_run(report["run"])
        return [Words(summary), table, *with_captions(pictures), *run]

    figures = {name: (summary, partial(study.figure, rows))}
    publish(folder / "compare.json", title, report, page, figures)
