"""The plots of a bench's document, by matplotlib (the extra `bench`).

A `figure_...` function takes the document and gives a figure, or None where the document lacks what
it shows.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import (
    FAINT,
    INK,
    PAPER,
    SMALL,
    STYLE,
    colours,
    key_to,
    looks,
    on,
    panels,
    pictures,
    powers_of_two,
)
from leapdecode_bench.measure.labels import short_names
from leapdecode_bench.measure.records import BASELINE
from leapdecode_bench.measure.scaling import figure_scaling

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 12  # accepted lengths from here on share a bar

Report = dict[str, Any]


def available() -> bool:
    """Whether plots can be drawn here."""
    return find_spec("matplotlib") is not None


def draw(report: Report) -> dict[str, tuple[str, str, bytes]]:
    """By name, every plot that the document has the data for: (caption, SVG, PNG)."""
    import matplotlib

    drawn = {}
    with matplotlib.rc_context(STYLE):
        for name, (make, caption) in FIGURES.items():
            figure = make(report)
            if figure is not None:
                drawn[name] = (caption, *pictures(figure, name))
    return drawn


def names(rows: list[Report], key: str) -> list[str]:
    """The tasks or methods of the rows, in their order."""
    return list(dict.fromkeys(row[key] for row in rows))


def figure_speedup(report: Report) -> "Figure | None":
    """Speed-up of every method, with its interval, by task."""
    others = [row for row in report["rows"] if row["method"] != BASELINE]
    rows = [row for row in others if row["speedup"] is not None]
    if not rows:
        return None
    methods, colour = names(rows, "method"), colours(names(report["rows"], "method"))
    figure, places = panels(names(rows, "task"), methods, columns=3)
    for row in rows:
        axes, at, (low, high) = (
            places[row["task"]],
            methods.index(row["method"]),
            row["speedup_interval"],
        )
        axes.barh(at, row["speedup"], height=0.66, color=colour[row["method"]])
        axes.plot([low, high], [at, at], color=INK, linewidth=1.2, solid_capstyle="butt")
        value = f"{row['speedup']:.2f}x"
        axes.annotate(
            value,
            (max(high, 1), at),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
        )
    for axes in places.values():
        axes.axvline(1, color=INK, linewidth=0.8)
        axes.set_xlim(0, max(1, *(row["speedup_interval"][1] for row in rows)) * 1.35)
    figure.supxlabel("speed-up over plain decoding, with its 95% interval", fontsize=9)
    return figure


def shares(row: Report) -> list[float]:
    """Share of the steps by accepted length, from 0 to `LONGEST` and more."""
    found, steps = [0.0] * (LONGEST + 1), sum(row["accepted_lengths"].values())
    for length, times in row["accepted_lengths"].items():
        found[min(int(length), LONGEST)] += times / steps
    return found


def figure_accepted(report: Report) -> "Figure | None":
    """How many tokens a step gave: a histogram per method and task, all on one scale."""
    rows = [row for row in report["rows"] if row["method"] != BASELINE and row["accepted_lengths"]]
    if not rows:
        return None
    methods, colour = names(rows, "method"), colours(names(report["rows"], "method"))
    figure, places = panels(names(rows, "task"), methods, columns=4, room=0.25)
    longest = max(int(length) for row in rows for length in row["accepted_lengths"])
    highest = max(max(shares(row)) for row in rows)
    for row in rows:
        axes, at = places[row["task"]], methods.index(row["method"])
        # upwards: the y axis grows downwards
        heights = [-0.85 * share / highest for share in shares(row)]
        axes.bar(range(LONGEST + 1), heights, 0.8, bottom=at + 0.4, color=colour[row["method"]])
        axes.axhline(at + 0.4, color=FAINT, linewidth=0.6)
    last = min(longest, LONGEST)
    ticks = [length for length in (1, 2, 4, 8, LONGEST) if length <= last]
    names_of_ticks = [f"{tick}+" if tick == LONGEST < longest else str(tick) for tick in ticks]
    for axes in places.values():
        axes.set_xlim(0.4, last + 0.6)
        axes.set_xticks(ticks, names_of_ticks)
    scale = f"the highest bar: {highest:.0%} of the steps"
    figure.supxlabel(f"tokens accepted in a step ({scale})", fontsize=9)
    return figure


def figure_rows(report: Report) -> "Figure | None":
    """Tokens per forward against rows per forward, a dot per method and task."""
    from matplotlib.figure import Figure

    rows = [row for row in report["rows"] if row["tokens_per_forward"] and row["rows_per_forward"]]
    if not rows:
        return None
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes, tasks, methods = figure.subplots(), names(rows, "task"), names(rows, "method")
    for place, row in enumerate(rows):
        look, number = looks(tasks.index(row["task"])), methods.index(row["method"]) + 1
        point = row["rows_per_forward"], row["tokens_per_forward"]
        axes.plot(
            *point,
            **look,
            markersize=9,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            zorder=3 + place,
        )
        axes.annotate(
            f"{number}",
            point,
            color=on(look["color"]),
            fontsize=6,
            fontweight="bold",
            ha="center",
            va="center_baseline",
            zorder=3.5 + place,
        )
    powers_of_two(axes, [row["rows_per_forward"] for row in rows])
    axes.set(xlabel="rows per forward", ylabel="tokens per forward")
    dots = [(looks(number) | {"linestyle": ""}, task) for number, task in enumerate(tasks)]
    numbers = [
        ({"marker": f"${number}$", "color": INK, "linestyle": "", "markeredgewidth": 0}, name)
        for number, name in enumerate(short_names(methods), 1)
    ]
    key_to(figure, dots + numbers)
    return figure


def figure_row_costs(report: Report) -> "Figure | None":
    """Time of a forward against its rows, a line per context length."""
    from matplotlib.figure import Figure

    costs = report["run"].get("row_costs") or []
    if not costs:
        return None
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    contexts = list(dict.fromkeys(cost["context"] for cost in costs))
    for number, context in enumerate(contexts):
        own = [cost for cost in costs if cost["context"] == context]
        points = [(cost["rows"], cost["milliseconds"]) for cost in own]
        axes.plot(*zip(*points, strict=True), **looks(number), markersize=5)
    powers_of_two(axes, [cost["rows"] for cost in costs])
    axes.set_ylim(bottom=0)
    axes.set(xlabel="rows of a forward", ylabel="milliseconds")
    key_to(
        figure,
        [(looks(number), f"{context} tokens cached") for number, context in enumerate(contexts)],
    )
    return figure


DOTS = "a dot is a method (its number) on a task (its colour)."
LINES = "a line per n-gram length N, a point per variant with its window; all tasks together."
SHARED = "Options that all variants of a method share are left out."
FIGURES = {
    "speedup": (
        figure_speedup,
        f"Speed-up over plain decoding (the line at 1), with 95% intervals. {SHARED}",
    ),
    "rows": (
        figure_rows,
        f"Tokens per forward against rows per forward; {DOTS}",
    ),
    "accepted": (
        figure_accepted,
        "How many tokens a step gave: the share of the steps by accepted length.",
    ),
    "scaling": (
        figure_scaling,
        f"Lookahead's scaling law: {LINES}",
    ),
    "row_costs": (
        figure_row_costs,
        "What a forward costs: its time against the rows it evaluates.",
    ),
}
