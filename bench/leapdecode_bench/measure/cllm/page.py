"""An evaluation as files: evaluate.json, report.md, report.html and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import FAINT, key_to, looks
from leapdecode_bench.measure.cells import compact, seconds, shown, speedup
from leapdecode_bench.measure.pages import Block, Heading, States, Table, Words, webpage
from leapdecode_bench.measure.plots import available
from leapdecode_bench.measure.publish import Drawn, paint, publish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = (
    "model", "decoding", "tokens/forward", "tokens/second", "speed-up", "quality", "looping",
    "identical",
)  # fmt: skip
PHENOMENA = ("model", "task", "fast-forwarded", "stationary", "iterations of a block", "perplexity")
COST = ("model", "steps", "epochs", "tokens", "learnt positions", "time")
HOW_TO_READ = (
    "All models decoded the same prompts in the same rounds, in an order drawn for each. Speed-up: "
    "over plain decoding of the baseline, the median of paired ratios with its 95% interval. "
    "Quality: mean score of the texts. Looping: share of the texts in which more than 30% of "
    "4-grams are repeated. Identical: texts that are those of the same model's plain decoding.",
    "Speed means nothing without quality: a model that repeats itself decodes fast.",
)
ABOUT_PHENOMENA = (
    "Fast-forwarded: tokens that an iteration fixes, the one included that every iteration fixes. "
    "Stationary: tokens of a block that became right behind a wrong one and stayed so (CLLM, Table "
    "3). Perplexity: of the task's right answers, per token."
)
ABOUT_VIEW = (
    "A line per iteration, from the initial guess to the fixed point (CLLM, Figure 2). Right "
    "tokens are blue, wrong ones red and underlined."
)
BLOCKS = "Tokens per forward, and speed-up, by tokens of a block (CLLM, Figure 3)"


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """The document, the page and its pictures."""
    title = f"{short(report['run']['model'])} after consistency training"
    drawn = draw(report) if available() else {}
    publish(folder / "evaluate.json", title, report, blocks(report), drawn)


def blocks(report: Mapping[str, Any]) -> list[Block]:
    """The page."""
    rows = report["rows"]
    page: list[Block] = [Words(text, strong=True) for text in warnings(rows)]
    for task in tasks_of(rows):
        lines = [cells(row) for row in rows if row["task"] == task]
        page.append(Table(HEAD, lines, names=2, title=task))
    page += [Words(text) for text in HOW_TO_READ]
    page += [Heading("Where the speed comes from"), Words(ABOUT_PHENOMENA)]
    page.append(Table(PHENOMENA, phenomena_of(rows), names=2))
    if report["cost"]:
        lines = [[short(name), *cost_cells(cost)] for name, cost in report["cost"].items()]
        page += [Heading("What training took"), Table(COST, lines, names=1)]
    page += [Heading("How a block came about"), Words(ABOUT_VIEW)]
    for view in report["views"]:
        page += [Words(f"{view['task']}, {short(view['model'])}:"), States(view["states"])]
    return page


def short(model: str) -> str:
    """A model's name in tables: the last part of a path."""
    return Path(model).name


def tasks_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tasks, in their order."""
    return list(dict.fromkeys(row["task"] for row in rows))


def warnings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which models have collapsed, on what."""
    found = dict.fromkeys((row["model"], row["task"]) for row in rows if row["collapsed"])
    return [
        f"{short(model)} has collapsed on {task}: its speed is that of texts which are wrong or "
        "repeat themselves"
        for model, task in found
    ]


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row by the names of `HEAD`."""
    identical = "-" if row["identical"] is None else f"{row['identical']} of {row['texts']}"
    return [
        short(row["model"]) + (" (collapsed)" if row["collapsed"] else ""),
        row["decoding"],
        shown(row["tokens_per_forward"]),
        compact(row["tokens_per_second"]),
        speedup(dict(row)),
        shown(row["quality"]),
        f"{100 * row['looping']:.0f}%",
        identical,
    ]


def phenomena_of(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A line per model and task."""
    found = {(row["model"], row["task"]): row for row in rows}
    return [
        [
            short(model), task, shown(row["fast_forwarded"]), shown(row["stationary"]),
            shown(row["block_iterations"]), shown(row["perplexity"]),
        ]
        for (model, task), row in found.items()
    ]  # fmt: skip


def cost_cells(cost: Mapping[str, Any]) -> list[str]:
    """A line of the table of costs, without its model."""
    return [
        f"{cost['steps']:,}", f"{cost['epochs']:.1f}", f"{cost['tokens']:,}",
        f"{cost['learnt']:,}", seconds(cost["seconds"]),
    ]  # fmt: skip


def draw(report: Mapping[str, Any]) -> Drawn:
    """By name (caption, SVG, PNG) of the picture by block, where several were decoded."""
    rows = [row for row in report["rows"] if block_of(row["decoding"])]
    if len({block_of(row["decoding"]) for row in rows}) < 2:
        return {}
    return paint({"blocks": (BLOCKS, lambda: figure_blocks(rows))})


def block_of(decoding: str) -> int:
    """Tokens of a block of Jacobi decoding in block form, by its label; 0 for other methods."""
    name, *options = decoding.split(":")
    given = dict(option.split("=", 1) for option in options)
    return int(given.get("block", 0)) if name == "jacobi" else 0


def figure_blocks(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Two panels; a line per model and task in both."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    panels = figure.subplots(1, 2)
    lines = list(dict.fromkeys((row["model"], row["task"]) for row in rows))
    for number, line in enumerate(lines):
        own = [row for row in rows if (row["model"], row["task"]) == line]
        own.sort(key=lambda row: block_of(row["decoding"]))
        across = [block_of(row["decoding"]) for row in own]
        for axes, name in zip(panels, ("tokens_per_forward", "speedup"), strict=True):
            axes.plot(across, [row[name] for row in own], **looks(number), markersize=4)
    for axes, name in zip(panels, ("tokens per forward", "speed-up"), strict=True):
        axes.axhline(1, color=FAINT, linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tokens of a block")
        axes.set_ylabel(name)
    names = [f"{short(model)}, {task}" for model, task in lines]
    key_to(figure, [(looks(number), name) for number, name in enumerate(names)])
    return figure


def write_view(path: Path, prompt: str, model: str, found: Sequence[Any]) -> None:
    """A page of the trajectories of one text's blocks."""
    page: list[Block] = [Words(prompt), Words(ABOUT_VIEW)]
    for number, states in enumerate(found, 1):
        page += [Heading(f"Block {number}, {len(states) - 1} iterations"), States(states)]
    path.write_text(webpage(f"How {model} made a text", page), encoding="utf-8")
