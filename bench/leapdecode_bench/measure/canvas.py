"""What the plots share: colours, labels, panels, and how a figure becomes SVG, PNG, part of a page.

matplotlib is imported inside functions only. Its object interface is used, without pyplot's global
state. Colours are those of Okabe and Ito, which colour-blind readers can tell apart.
"""

import io
import itertools
import re
import textwrap
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leapdecode.plain import clean
from leapdecode_bench.measure.cells import short_names
from leapdecode_bench.measure.records import BASELINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, FAINT, PAPER, PLAIN = "#1d1e20", "#c4c5c7", "#ffffff", "#8a8b8d"
PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")
LIGHT = ("#e69f00", "#cc79a7", "#56b4e9")  # colours on which letters are black
BLACK, WHITE = "#000000", "#fefefe"  # letters on a dot, in any theme
MARKERS = ("o", "s", "^", "D", "v")
LINES = ("solid", "dashed", "dotted")
SMALL = 8.0  # points, of labels at the data
STYLE: dict[Any, Any] = {
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "svg.fonttype": "none",
}
SVG = "http://www.w3.org/2000/svg"
THEMED = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    PAPER: "var(--paper)",
}  # on a page, colours follow its theme


def colours(methods: Sequence[str]) -> dict[str, str]:
    """A colour per method, by its place in the document, so equal in all plots.

    Plain decoding is grey.
    """
    rest = [method for method in methods if method != BASELINE]
    return {BASELINE: PLAIN, **dict(zip(rest, itertools.cycle(PALETTE), strict=False))}


def style_of(number: int) -> dict[str, Any]:
    """Colour, marker and line of the `number`-th line or cloud of points."""
    repeats = number // len(PALETTE)  # how often each colour has been used
    return {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKERS[repeats % len(MARKERS)],
        "linestyle": LINES[repeats % len(LINES)],
    }


def text_colour_on(colour: str) -> str:
    """The colour of letters that stand on `colour`."""
    return BLACK if colour in LIGHT else WHITE


def label(name: str, width: int = 24) -> str:
    """A name as it stands in a plot: wrapped, at most four lines, and never read as a formula."""
    parted = clean(name).replace(":", " ").replace("+", " +")
    lines = textwrap.wrap(parted, width, max_lines=4, placeholder=" …") or ["-"]
    text = "\n".join(lines).replace("$", r"\$")
    hidden = text.startswith("_")  # a legend leaves such names out
    return f" {text}" if hidden else text


def panels(
    tasks: list[str],
    methods: list[str],
    columns: int,
    room: float = 0.08,
) -> "tuple[Figure, dict[str, Axes]]":
    """A panel per task with the methods down its side, in one order and on one scale.

    The methods' names stand on the left. `room` is what a method gets beyond its name's lines, in
    inches.
    """
    from matplotlib.figure import Figure

    columns = min(columns, len(tasks))
    lines = -(-len(tasks) // columns)
    wrapped = [label(method) for method in short_names(methods)]
    height = 0.5 + len(methods) * (room + 0.13 * max(text.count("\n") + 1 for text in wrapped))
    size = (2.2 + 6 * columns / (columns + 0.6), 0.4 + lines * height)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(tasks):
            axes.remove()
            continue
        axes.tick_params(labelbottom=number + columns >= len(tasks))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        name = label(tasks[number], 60 // columns)
        axes.set_title(name, fontsize=9, loc="left", fontweight="bold")
        axes.set_yticks(range(len(methods)), wrapped, fontsize=SMALL)
    grid[0, 0].set_ylim(len(methods) - 0.4, -0.6)
    return figure, dict(zip(tasks, grid.flat, strict=False))


def chart(width: float, height: float) -> "tuple[Figure, Axes]":
    """A figure of one panel; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def powers_of_two(axes: "Axes", rows: list[float]) -> None:
    """A logarithmic x axis from the fewest to the most rows, marked at 1, 2, 4, ..."""
    ticks = [2**power for power in range(20) if min(rows) / 2 < 2**power < max(rows) * 2]
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(min(rows) / 1.3, max(rows) * 1.3)


def add_legend(figure: "Figure", entries: "list[tuple[dict[str, Any], str]]") -> None:
    """A legend right of the plot, of pairs of a line's or marker's looks and its name.

    The figure grows to hold it.
    """
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **{"markersize": 6, **style}) for style, _ in entries]
    wrapped = [label(name) for _, name in entries]
    needed = 0.3 + sum(0.08 + 0.12 * (text.count("\n") + 1) for text in wrapped)
    figure.set_figheight(max(figure.get_figheight(), needed))
    figure.legend(
        handles,
        wrapped,
        loc="outside right upper",
        frameon=False,
        fontsize=SMALL,
        labelspacing=0.6,
    )


def images(figure: "Figure", name: str) -> tuple[str, bytes]:
    """(SVG, PNG) of a figure; equal figures give equal SVG, wherever and whenever drawn."""
    import matplotlib

    drawn, painted = io.BytesIO(), io.BytesIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with warnings.catch_warnings(), matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(drawn, format="svg", metadata=metadata)
        figure.savefig(painted, format="png", dpi=160)
    return drawn.getvalue().decode(), painted.getvalue()


def inline(svg: str, name: str, caption: str) -> str:
    """The SVG as part of a page.

    It has colours of the page's theme, identifiers of its own, a description and no links.
    """
    ET.register_namespace("", SVG)
    root = ET.fromstring(svg)
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    for element in root.iter():
        attributes = dict(element.attrib)
        element.attrib.clear()
        for key, value in attributes.items():
            if key.endswith("}href"):
                element.set("href", f"#{name}-{value[1:]}")
            else:
                element.set(key, f"{name}-{value}" if key == "id" else _themed(value, name))
    root.attrib.update({"role": "img", "aria-label": caption})
    return ET.tostring(root, encoding="unicode")


def _themed(value: str, name: str) -> str:
    """An attribute's value with the theme's colours, and references to this plot's identifiers."""
    colour = "#[0-9a-f]{6}(?![0-9a-z])"
    value = re.sub(colour, lambda match: THEMED.get(match[0], match[0]), value)
    return value.replace("url(#", f"url(#{name}-")
