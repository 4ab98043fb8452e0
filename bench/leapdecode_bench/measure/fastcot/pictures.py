"""Pictures of FastCoT: saved time against loss, accuracy against iterations (Figures 6 and 8) and
against the share of a rationale that is left (Figure 5). matplotlib is imported in functions only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import FAINT, INK, key_to, looks
from leapdecode_bench.measure.publish import Drawn, paint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line = Sequence[tuple[float, float]]
SAVED = "Time saved over plain whole rationales against the loss of accuracy, with 95% intervals"
ITERATIONS = "Accuracy against iterations on the questions for calibration (FastCoT, Figure 6)"


def draw(report: Mapping[str, Any]) -> Drawn:
    """By name (caption, SVG, PNG) of every picture that a comparison has the figures for."""
    found = {}
    rows = [row for row in report["rows"] if row["saved_time"] is not None]
    if rows:
        found["saved_time"] = (SAVED, lambda: figure_saved(rows))
    calibrations = report["calibrations"]
    if calibrations:
        lines = {method: line_of(one["curve"]) for method, one in calibrations.items()}
        level = max(one["accuracy"] - one["max_loss"] for one in calibrations.values())
        bounds = [one["iterations"] for one in calibrations.values()]
        found["iterations"] = (
            ITERATIONS,
            lambda: figure_lines(lines, "iterations", level, bounds),
        )
    return paint(found)


def line_of(curve: Sequence[Mapping[str, Any]]) -> Line:
    """The points of a calibration's curve."""
    return [(point["iterations"], point["accuracy"]) for point in curve]


def figure_saved(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A point per row; those of one contender are joined in their order."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    names = list(dict.fromkeys(row["method"] for row in rows))
    for number, name in enumerate(names):
        look = looks(number)
        own = [row for row in rows if row["method"] == name]
        x, y = ([100 * row[part] for row in own] for part in ("loss", "saved_time"))
        axes.plot(x, y, **look, markersize=5, linewidth=1)
        for row, across, up in zip(own, x, y, strict=True):
            width, height = row["loss_interval"], row["saved_time_interval"]
            axes.plot([100 * end for end in width], [up, up], color=look["color"], linewidth=0.5)
            bar = [100 * end for end in height]
            axes.plot([across, across], bar, color=look["color"], linewidth=0.5)
    axes.axhline(0, color=FAINT, linewidth=1, zorder=0)
    axes.axvline(0, color=FAINT, linewidth=1, zorder=0)
    axes.set_xlabel("loss, in points of accuracy")
    axes.set_ylabel("% of the time saved")
    key_to(figure, [(looks(number), name) for number, name in enumerate(names)])
    return figure


def figure_lines(
    lines: Mapping[str, Line], across: str, level: float | None = None, at: Sequence[float] = ()
) -> Figure:
    """Accuracy by name of a line; `level`, and a place `at` for each line, are marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 3.2), layout="constrained")
    axes = figure.subplots()
    for number, points in enumerate(lines.values()):
        x, y = zip(*points, strict=True)
        axes.plot(x, [100 * value for value in y], **looks(number), markersize=3)
    if level is not None:
        axes.axhline(100 * level, color=FAINT, linewidth=1)
    for number, place in enumerate(at):
        axes.axvline(place, color=looks(number)["color"], linewidth=0.5)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(across)
    axes.set_ylabel("accuracy, %", color=INK)
    key_to(figure, [(looks(number), name) for number, name in enumerate(lines)])
    return figure
