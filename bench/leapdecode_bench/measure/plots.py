"""The plots of a bench's document.

A `figure_...` function takes the document and gives a figure, or None where the document lacks what
it shows.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import (
    FAINT,
    INK,
    PAPER,
    SMALL,
    add_legend,
    chart,
    colours,
    panels,
    powers_of_two,
    style_of,
    text_colour_on,
)
from leapdecode_bench.measure.cells import short_names
from leapdecode_bench.measure.option_plots import figure_drafts, figure_option
from leapdecode_bench.measure.publish import Figures
from leapdecode_bench.measure.records import BASELINE
from leapdecode_bench.measure.scaling_plot import figure_scaling

if TYPE_CHECKING:
    from matplotlib.figure import Figure
LONGEST = 12  # accepted lengths from here on share a bar

Report = dict[str, Any]


def figures(report: Report) -> Figures:
    """All plots, as `publish` takes them."""
    return {name: (caption, partial(make, report)) for name, (make, caption) in FIGURES.items()}


def distinct(rows: list[Report], key: str) -> list[str]:
    """The tasks or methods of the rows, in their order."""
    return list(dict.fromkeys(row[key] for row in rows))


def figure_speedup(report: Report) -> "Figure | None":
    """Speed-up of every method, with its interval, by task."""
    compared = [row for row in report["rows"] if row["method"] != BASELINE]
    rows = [row for row in compared if row["speedup"] is not None]
    if not rows:
        return None
    methods = distinct(rows, "method")
    colour = colours(distinct(report["rows"], "method"))
    figure, places = panels(distinct(rows, "task"), methods, columns=3)
    for row in rows:
        axes = places[row["task"]]
        line = methods.index(row["method"])
        low, high = row["speedup_interval"]
        axes.barh(line, row["speedup"], height=0.66, color=colour[row["method"]])
        axes.plot([low, high], [line, line], color=INK, linewidth=1.2, solid_capstyle="butt")
        value = f"{row['speedup']:.2f}x"
        axes.annotate(
            value,
            (max(high, 1), line),
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
    shares_of_steps = [0.0] * (LONGEST + 1)
    steps = sum(row["accepted_lengths"].values())
    for length, times in row["accepted_lengths"].items():
        shares_of_steps[min(int(length), LONGEST)] += times / steps
    return shares_of_steps


def figure_accepted(report: Report) -> "Figure | None":
    """How many tokens a step gave: a histogram per method and task, all on one scale."""
    rows = [row for row in report["rows"] if row["method"] != BASELINE and row["accepted_lengths"]]
    if not rows:
        return None
    methods = distinct(rows, "method")
    colour = colours(distinct(report["rows"], "method"))
    figure, places = panels(distinct(rows, "task"), methods, columns=4, room=0.25)
    longest = max(int(length) for row in rows for length in row["accepted_lengths"])
    highest = max(max(shares(row)) for row in rows)
    for row in rows:
        axes = places[row["task"]]
        line = methods.index(row["method"])
        # upwards: the y axis grows downwards
        heights = [-0.85 * share / highest for share in shares(row)]
        axes.bar(range(LONGEST + 1), heights, 0.8, bottom=line + 0.4, color=colour[row["method"]])
        axes.axhline(line + 0.4, color=FAINT, linewidth=0.6)
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
    rows = [row for row in report["rows"] if row["tokens_per_forward"] and row["rows_per_forward"]]
    if not rows:
        return None
    figure, axes = chart(7.5, 4.5)
    tasks = distinct(rows, "task")
    methods = distinct(rows, "method")
    for order, row in enumerate(rows):
        style = style_of(tasks.index(row["task"]))
        number = methods.index(row["method"]) + 1
        point = row["rows_per_forward"], row["tokens_per_forward"]
        axes.plot(
            *point,
            **style,
            markersize=9,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
            zorder=3 + order,
        )
        axes.annotate(
            f"{number}",
            point,
            color=text_colour_on(style["color"]),
            fontsize=6,
            fontweight="bold",
            ha="center",
            va="center_baseline",
            zorder=3.5 + order,
        )
    powers_of_two(axes, [row["rows_per_forward"] for row in rows])
    axes.set(xlabel="rows per forward", ylabel="tokens per forward")
    dots = [(style_of(number) | {"linestyle": ""}, task) for number, task in enumerate(tasks)]
    numbers = [
        ({"marker": f"${number}$", "color": INK, "linestyle": "", "markeredgewidth": 0}, name)
        for number, name in enumerate(short_names(methods), 1)
    ]
    add_legend(figure, dots + numbers)
    return figure


def figure_row_costs(report: Report) -> "Figure | None":
    """Time of a forward against its rows, a line per context length."""
    costs = report["run"].get("row_costs") or []
    if not costs:
        return None
    figure, axes = chart(6.5, 3.6)
    contexts = list(dict.fromkeys(cost["context"] for cost in costs))
    for number, context in enumerate(contexts):
        costs_of_context = [cost for cost in costs if cost["context"] == context]
        points = [(cost["rows"], cost["milliseconds"]) for cost in costs_of_context]
        axes.plot(*zip(*points, strict=True), **style_of(number), markersize=5)
    powers_of_two(axes, [cost["rows"] for cost in costs])
    axes.set_ylim(bottom=0)
    axes.set(xlabel="rows of a forward", ylabel="milliseconds")
    add_legend(
        figure,
        [(style_of(number), f"{context} tokens cached") for number, context in enumerate(contexts)],
    )
    return figure


DOTS = "a dot is a method (its number) on a task (its colour)."
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
        "Lookahead's scaling law: steps against the window, with a fitted line for each n-gram "
        "length N; all tasks together.",
    ),
    "option": (
        figure_option,
        "What an option does: speed, and guesses that a forward accepts, by its value.",
    ),
    "drafts": (
        figure_drafts,
        "What the size of a draft does: speed, and guesses that a forward accepts, of each draft's "
        "fastest contender.",
    ),
    "row_costs": (
        figure_row_costs,
        "What a forward costs: its time against the rows it evaluates.",
    ),
}
