"""Plots of what an option and the size of a draft do, as Ouroboros's Figures 1 and 6 show them.

A `figure_...` function takes a bench's document and gives a figure, or None where the document
lacks what it shows.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import add_legend, style_of
from leapdecode_bench.measure.cells import parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Report = dict[str, Any]
Point = tuple[float, float, float]  # (option's value or draft's size, tokens/second, accepted)
FEWEST = 3  # values of an option that make a line worth drawing
OWN_DRAFT = "the bench's draft"


def varied(report: Report) -> tuple[str, str] | None:
    """(method, option) of the first method whose contenders differ in one number alone, beside
    their draft.
    """
    by_method: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in report["rows"]:
        by_method[row["method"].split(":")[0]][row["method"]] = row["options"]
    for method, variants in by_method.items():
        names = {name for options in variants.values() for name in options} - {"draft"}
        for name in sorted(names):
            others = {
                tuple(sorted((key, str(options.get(key))) for key in names - {name}))
                for options in variants.values()
            }
            values = {options.get(name) for options in variants.values()}
            numbers = all(type(value) in (int, float) for value in values)
            if len(others) == 1 and numbers and len(values) >= FEWEST:
                return method, name
    return None


def point(place: float, row: Report) -> Point:
    """A row of the document at a place on the x axis."""
    return place, row["tokens_per_second"], row["tokens_per_forward"] - 1


def lines_by_option(report: Report) -> tuple[str, dict[tuple[str, ...], list[Point]]]:
    """The option that varies; by task (and draft, where there are several) a point per value."""
    method_and_option = varied(report)
    lines: dict[tuple[str, ...], list[Point]] = defaultdict(list)
    if method_and_option is None:
        return "", lines
    method, option = method_and_option
    usual_draft = report["run"].get("draft") or OWN_DRAFT
    several = any("draft" in row["options"] for row in report["rows"])
    for row in report["rows"]:
        if row["method"].split(":")[0] == method and row["tokens_per_forward"]:
            draft = (str(row["options"].get("draft", usual_draft)),) if several else ()
            lines[row["task"], *draft].append(point(row["options"][option], row))
    return f"{option} of {method}", {name: sorted(points) for name, points in lines.items()}


def lines_by_draft(report: Report) -> dict[tuple[str, ...], list[Point]]:
    """By task and method a point per draft: its size, and what its fastest contender does."""
    others = report["run"].get("other_drafts") or {}
    fastest: dict[tuple[str, ...], dict[float, Point]] = defaultdict(dict)
    measured_with_others = {
        row["method"].split(":")[0] for row in report["rows"] if row["options"].get("draft")
    }
    for row in report["rows"]:
        method = row["method"].split(":")[0]
        draft = row["options"].get("draft")
        size = others.get(draft) if draft else report["run"].get("sizes", {}).get("draft")
        if method not in measured_with_others or not size or not row["tokens_per_forward"]:
            continue
        points = fastest[row["task"], method]
        points[size] = max(points.get(size, (size, 0.0, 0.0)), point(size, row), key=speed)
    return {name: sorted(points.values()) for name, points in fastest.items() if len(points) > 1}


def speed(point: Point) -> float:
    """Its tokens per second."""
    return point[1]


def figure_option(report: Report) -> "Figure | None":
    """Speed and accepted guesses by the value of an option (Ouroboros, Figures 1 and 6)."""
    option, lines = lines_by_option(report)
    if not lines:
        return None
    figure, panels = drawn(lines)
    values = sorted({place for points in lines.values() for place, _, _ in points})
    for axes in panels:
        axes.set_xticks(values)
        axes.set_xlabel(option)
    return figure


def figure_drafts(report: Report) -> "Figure | None":
    """Speed and accepted guesses by the size of the draft (Ouroboros, Figure 1)."""
    lines = lines_by_draft(report)
    if not lines:
        return None
    figure, panels = drawn(lines)
    sizes = sorted({place for points in lines.values() for place, _, _ in points})
    for axes in panels:
        axes.set_xscale("log")
        axes.set_xticks(sizes, [parameters(int(size)) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.set_xlabel("parameters of the draft")
    return figure


def drawn(lines: dict[tuple[str, ...], list[Point]]) -> "tuple[Figure, list[Axes]]":
    """Two panels, tokens per second and accepted guesses per forward, with a line per name."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.5, 3.4), layout="constrained")
    panels = list(figure.subplots(1, 2))
    for number, points in enumerate(lines.values()):
        places, speeds, accepted = zip(*points, strict=True)
        for axes, heights in zip(panels, (speeds, accepted), strict=True):
            axes.plot(places, heights, **style_of(number), markersize=5)
    for axes, name in zip(
        panels, ("tokens per second", "accepted guesses per forward"), strict=True
    ):
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0)
    entries = [(style_of(number), " ".join(name)) for number, name in enumerate(lines)]
    add_legend(figure, entries)
    return figure, panels
