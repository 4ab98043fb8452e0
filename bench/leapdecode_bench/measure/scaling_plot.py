"""Lookahead's scaling law, as Fu et al. 2023 show it (Figure 6): where N is large enough, doubling
the window W saves a constant number of steps.

The law is fitted to each line by least squares:

    steps for 100 tokens = intercept + slope * log2(W)
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leapdecode.methods.lookahead import Lookahead
from leapdecode_bench.measure.canvas import add_legend, powers_of_two, style_of
from leapdecode_bench.measure.cells import shared_options

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 3  # windows that make a line worth a fit
CONTROL = "unguessable"  # the task on which no method gains by its size
SIZES = ("window", "ngram", "guesses")  # options of lookahead that the law is about
POOL = "pool_from_prompt"
PANELS = {False: "n-grams of the window alone", True: "and n-grams of prompt and text"}
Report = dict[str, Any]
Points = list[tuple[int, float]]  # (window, steps for 100 tokens), by window


@dataclass(frozen=True)
class Fit:
    """A line through the points of one N.

    Attributes:
        intercept: steps for 100 tokens with one column.
        slope: further steps that a doubling of the window brings; below 0 it saves them.
        r2: the share of the variance that the line explains; 1 where there is none.
    """

    intercept: float
    slope: float
    r2: float


def fit(points: Points) -> Fit:
    """The least squares line of steps against log2(W)."""
    places = [math.log2(window) for window, _ in points]
    steps = [value for _, value in points]
    mean_place = sum(places) / len(points)
    mean_steps = sum(steps) / len(points)
    spread = sum((place - mean_place) ** 2 for place in places)
    total = sum((value - mean_steps) ** 2 for value in steps)
    pairs = zip(places, steps, strict=True)
    slope = sum((place - mean_place) * (value - mean_steps) for place, value in pairs) / spread
    r2 = slope**2 * spread / total if total else 1.0
    return Fit(mean_steps - slope * mean_place, slope, r2)


def variants(report: Report) -> dict[bool, dict[str, Points]]:
    """Without and with n-grams of prompt and text: the points of each N (and of other options),
    all tasks together but for the control. Lines of fewer than `FEWEST` windows are left out.
    """
    counted: dict[str, list[Report]] = defaultdict(list)
    for row in report["rows"]:
        of_lookahead = row["method"].split(":")[0] == Lookahead.name
        if of_lookahead and row["task"] != CONTROL and row["tokens_per_forward"]:
            counted[row["method"]].append(row)
    panels: dict[bool, dict[tuple[int, str], Points]] = {False: {}, True: {}}
    shared = shared_options(list(counted)).get(Lookahead.name, [])
    for rows in counted.values():
        options = dict(rows[0]["options"])
        sizes = {name: options.pop(name, getattr(Lookahead, name)) for name in SIZES}
        from_prompt = options.pop(POOL, Lookahead.pool_from_prompt)
        named = [f"{key}={value}" for key, value in options.items()]
        others = "".join(f" {option}" for option in named if option not in shared)
        forwards = sum(row["target_forwards"] - row["prefill_forwards"] for row in rows)
        steps = 100 * forwards / sum(row["tokens"] for row in rows)
        line = panels[from_prompt].setdefault((sizes["ngram"], others), [])
        line.append((sizes["window"], steps))
    return {
        from_prompt: {
            f"N={ngram}{others}": sorted(points)
            for (ngram, others), points in sorted(lines.items())
            if len({window for window, _ in points}) >= FEWEST
        }
        for from_prompt, lines in panels.items()
    }


def figure_scaling(report: Report) -> "Figure | None":
    """Steps for 100 tokens against the window, with the law's line for every N."""
    panels = {name: lines for name, lines in variants(report).items() if lines}
    if not panels:
        return None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 + 3.2 * len(panels), 3.8), layout="constrained")
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    laws: dict[str, list[str]] = {name: [] for name in names}
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (from_prompt, lines) in zip(all_axes, panels.items(), strict=True):
        for name, points in lines.items():
            style = style_of(names.index(name))
            law = fit(points)
            windows, steps = zip(*points, strict=True)
            axes.plot(windows, steps, **style | {"linestyle": ""}, markersize=5)
            ends = [windows[0], windows[-1]]
            heights = [law.intercept + law.slope * math.log2(window) for window in ends]
            axes.plot(ends, heights, color=style["color"], linewidth=1)
            laws[name].append(f"{law.slope:+.1f} (R² {law.r2:.2f})")
        axes.set_title(PANELS[from_prompt], fontsize=9, loc="left")
        powers_of_two(axes, [window for points in lines.values() for window, _ in points])
        axes.set_xlabel("window W")
    all_axes[0].set_ylabel("steps for 100 tokens")
    add_legend(
        figure,
        [
            (style_of(number), f"{name}, doubling W adds {' and '.join(laws[name])}")
            for number, name in enumerate(names)
        ],
    )
    return figure
