"""Shows a reasoning tree: on a terminal, as one HTML page, as an SVG picture.

What a model wrote can neither steer a terminal nor become a part of the page. jinja2 and matplotlib
(the extra `bench`) are imported where something is drawn with them.
"""

import io
import textwrap
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text
from rich.tree import Tree as Lines

from leapdecode.plain import clean, escape
from leapdecode.reasoning.tree import Node, Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from leapdecode.reasoning.execution import Record

FOLDER = Path(__file__).parent  # of the template
MARK = "*"  # of the chosen path, where colours cannot be seen
CHOSEN = "bold green"
INK, FAINT, PAPER, BEST = "#1d1e20", "#8a8b8d", "#ffffff", "#009e73"
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tree",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "sans-serif"],
}
LABEL, LINES = 34, 3  # characters of a line, and lines, of a thought in a picture
BEHIND = 0.77  # where edges leave: behind the thought, in levels


def value_text(node: Node) -> str:
    """A node's value; "?" where none could be read."""
    return "?" if node.value is None else f"{node.value:.4g}"


def chosen_nodes(tree: Tree) -> list[Node]:
    """The chosen path, without the root; empty while searching."""
    return tree.chosen.branch() if tree.chosen else []


def score_text(tree: Tree) -> str:
    """The score, for people."""
    return "not scored" if tree.score is None else f"{tree.score:.4g}"


def counts_text(tree: Tree) -> str:
    """What the search did, in one line."""
    counts = tree.counts
    undecided = f", {counts.undecided} steps without a value" if counts.undecided else ""
    return (
        f"{counts.thoughts} thoughts ({counts.coincidences} like a sibling), "
        f"{counts.evaluations} evaluations ({counts.cache_hits} known before, "
        f"{counts.unparsed} unreadable){undecided}"
    )


def record_text(record: "Record") -> str:
    """What the texts of a search took, in one line; forwards of prompts alone are not counted."""
    if not record.forwards:
        return "nothing was decoded"
    tokens = sum(result.stats.tokens for result in record.results)
    forwards = Counter(event.model for event in record.forwards if not event.prefill)
    drafted = f" and {forwards['draft']} of the draft" if forwards["draft"] else ""
    seconds = record.forwards[-1].ended - record.forwards[0].began
    return (
        f"{tokens} tokens in {forwards['target']} forwards of the target{drafted}, "
        f"{seconds:.1f} seconds"
    )


def terminal(tree: Tree) -> Lines:
    """The tree for a rich console: values, thoughts, the chosen path in colour and by a mark."""
    marked = chosen_nodes(tree)
    lines = Lines(Text(escape(tree.question)), guide_style="dim")

    def add(parent: Lines, node: Node) -> None:
        on_path = node in marked
        head = f"{MARK} " if on_path else ""
        label = Text(f"{head}{value_text(node)}  ", style=CHOSEN if on_path else "dim")
        label.append(escape(node.thought), style=CHOSEN if on_path else "")
        branch = parent.add(label)
        for child in node.children:
            add(branch, child)

    for node in tree.root.children:
        add(lines, node)
    return lines


def webpage(tree: Tree) -> str:
    """The tree as one HTML file that needs nothing beside it; explanations open on demand."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def visible(value: object) -> object:
        return value if isinstance(value, Markup) else escape(str(value))

    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("tree.html")
    paths = {node.path for node in chosen_nodes(tree)}
    return page.render(
        tree=tree, chosen=paths, value=value_text, score=score_text(tree), counts=counts_text(tree)
    )


def picture(tree: Tree) -> str:
    """The tree as an SVG: levels from left to right, values in the nodes, thoughts beside them."""
    import matplotlib
    from matplotlib.figure import Figure

    positions = _positions(tree.root)
    levels = max(node.depth for node in positions)
    height = 1 + max(-row for _, row in positions.values())
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(1.2 + 3.3 * levels, 0.7 + 0.6 * height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(-0.2, levels + 0.95 if levels else 1.0)
        axes.set_ylim(-height + 0.3, 1.0)
        _draw(axes, tree, positions)
        return _svg(figure)


def _positions(root: Node) -> dict[Node, tuple[float, float]]:
    """Coordinates of nodes: x is the depth; each leaf has its own y, and parents the mean of their
    first and last child's.
    """
    positions: dict[Node, tuple[float, float]] = {}
    leaves = 0

    def locate(node: Node) -> float:
        nonlocal leaves
        if node.children:
            rows = [locate(child) for child in node.children]
            row = (rows[0] + rows[-1]) / 2
        else:
            row = -float(leaves)
            leaves += 1
        positions[node] = (node.depth, row)
        return row

    locate(root)
    return positions


def _draw(axes: "Axes", tree: Tree, positions: dict[Node, tuple[float, float]]) -> None:
    marked = [tree.root, *chosen_nodes(tree)]
    for node, (x, y) in positions.items():
        on_path = node in marked
        colour = BEST if on_path else FAINT
        if node.parent:
            parent_x, parent_y = positions[node.parent]
            width = 2.5 if on_path else 0.8
            axes.plot(
                [parent_x + BEHIND, x], [parent_y, y], color=colour, linewidth=width, zorder=1
            )
        axes.plot(
            [x], [y], "o", markersize=17, color=colour if on_path else PAPER,
            markeredgecolor=colour, markeredgewidth=1.2, zorder=2,
        )  # fmt: skip
        value = value_text(node) if node.parent else ""
        ink = PAPER if on_path else INK
        axes.text(x, y, value, color=ink, fontsize=7, ha="center", va="center_baseline", zorder=3)
        axes.annotate(
            _label(node, tree, on_path), (x, y), (12, 0), textcoords="offset points", fontsize=6.5,
            color=INK, va="center", parse_math=False, zorder=4,
            bbox={"facecolor": PAPER, "edgecolor": "none", "pad": 1, "alpha": 0.85},
        )  # fmt: skip


def _label(node: Node, tree: Tree, on_path: bool) -> str:
    """The beginning of a thought, or of the question; marked on the chosen path."""
    text = node.thought if node.parent else tree.question
    mark = f"{MARK} " if on_path and node.parent else ""
    lines = textwrap.wrap(clean(f"{mark}{text}"), LABEL, max_lines=LINES, placeholder=" …")
    return "\n".join(lines)


def _svg(figure: "Figure") -> str:
    """The figure's SVG; equal trees give equal ones."""
    svg = io.BytesIO()
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(svg, format="svg", metadata=metadata)
    return svg.getvalue().decode()
