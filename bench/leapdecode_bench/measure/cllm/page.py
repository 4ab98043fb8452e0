"""An evaluation as files: its document, its page, and its plot by tokens of a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import FAINT, add_legend, style_of
from leapdecode_bench.measure.cells import NONE, compact, percent, seconds, shown, speedup
from leapdecode_bench.measure.pages import (
    Block,
    Columns,
    Heading,
    States,
    Table,
    Words,
    table_of,
    webpage,
)
from leapdecode_bench.measure.publish import Figures, Pictures, publish
from leapdecode_bench.measure.records import LOOPING
from leapdecode_bench.measure.report import what_was_run, with_captions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS: Columns = {
    "model": lambda row: short(row["model"]) + (" (collapsed)" if row["collapsed"] else ""),
    "decoding": lambda row: row["decoding"],
    "tokens/forward": lambda row: shown(row["tokens_per_forward"]),
    "tokens/second": lambda row: compact(row["tokens_per_second"]),
    "speed-up": speedup,
    "quality": lambda row: shown(row["quality"]),
    "looping": lambda row: percent(row["looping"]),
    "identical": lambda row: (
        NONE if row["identical"] is None else f"{row['identical']} of {row['texts']}"
    ),
}
PHENOMENA: Columns = {
    "model": lambda row: short(row["model"]),
    "task": lambda row: row["task"],
    "tokens of a block": lambda row: str(row["block"]),
    "fast-forwarded": lambda row: shown(row["fast_forwarded"]),
    "stationary": lambda row: shown(row["stationary"]),
    "forwards of a block": lambda row: shown(row["block_forwards"]),
    "perplexity": lambda row: shown(row["perplexity"]),
}
COST: Columns = {
    "model": lambda row: short(row["model"]),
    "steps": lambda row: f"{row['steps']:,}",
    "epochs": lambda row: f"{row['epochs']:.1f}",
    "tokens": lambda row: f"{row['tokens']:,}",
    "learnt positions": lambda row: f"{row['learnt']:,}",
    "trajectories": lambda row: whole(row["trajectories"]),
    "time": lambda row: seconds(row["seconds"]),
    "share of pre-training": lambda row: f"{100 * row['share']:.2g}%",
}
COLLECTING: Columns = {
    "model": lambda row: short(row["model"]),
    "prompts": lambda row: whole(row["collecting"]["prompts"]),
    "generated tokens": lambda row: whole(row["collecting"]["generated_tokens"]),
    "time": lambda row: seconds(row["collecting"]["seconds"]),
}
ABOUT_COST = (
    "Tokens: all that training read, prompts and noisy states included, over its epochs. Share of "
    "pre-training: these over {:.3g} tokens (CLLM, Table 9)."
)
ABOUT_COLLECTING = (
    "Generated tokens: of all responses, dropped ones too. Time: of all processes, decoding and "
    "iterating (CLLM, Table 8)."
)
HOW_TO_READ = (
    "All models decoded the same prompts in the same rounds, in an order drawn for each. Speed-up: "
    "over plain decoding of the baseline, the median of paired ratios with its 95% interval. "
    "Quality: mean score of the texts. Looping: share of the texts in which more than "
    f"{LOOPING:.0%} of 4-grams are repeated. Identical: texts that are those of the same model's "
    "plain decoding.",
    "Speed means nothing without quality: a model that repeats itself decodes fast.",
)
ABOUT_PHENOMENA = (
    "Fast-forwarded: tokens of a block per forward, the one included that every forward fixes, and "
    "the forward that confirms the last ones. Stationary: tokens of a block that became right "
    "behind a wrong one and stayed so (CLLM, Table 3). They are of the texts measured above. "
    "Perplexity, per token: of a public set's whole texts (Table 5), or of a task's right answers."
)
ABOUT_VIEW = (
    "A line per iteration, from the initial guess to the fixed point (CLLM, Figure 2). Right "
    "tokens are blue, wrong ones red and underlined."
)
BLOCKS = "Tokens per forward, and speed-up, by tokens of a block (CLLM, Table 4)"
TRAINED_BLOCKS = (
    "Quality, and speed-up, by the tokens of the blocks that each model was trained on and is "
    "decoded in (CLLM, Figure 3)"
)


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """The document, the page and its plot."""
    title = f"{short(report['run']['model'])} after consistency training"
    publish(folder / "evaluate.json", title, report, partial(blocks, report), figures_of(report))


def blocks(report: Mapping[str, Any], pictures: Pictures) -> list[Block]:
    """The page."""
    rows = report["rows"]
    page: list[Block] = [Words(text, strong=True) for text in warnings(rows)]
    page += [*tables(rows), *map(Words, HOW_TO_READ)]
    page += [Heading("Where the speed comes from"), Words(ABOUT_PHENOMENA)]
    by_model_and_task = {(row["model"], row["task"]): row for row in rows}
    page.append(table_of(PHENOMENA, by_model_and_task.values(), names=2))
    if report["cost"]:
        costs = [{"model": name} | cost for name, cost in report["cost"].items()]
        about = ABOUT_COST.format(report["pretraining_tokens"])
        page += [Heading("What training took"), table_of(COST, costs), Words(about)]
        collected = [cost for cost in costs if cost["collecting"]]
        if collected:
            page += [Heading("What collecting took"), table_of(COLLECTING, collected)]
            page.append(Words(ABOUT_COLLECTING))
    page += [Heading("How a block came about"), Words(ABOUT_VIEW)]
    for view in report["views"]:
        page += [Words(f"{view['task']}, {short(view['model'])}:"), States(view["states"])]
    return [*page, *with_captions(pictures), *what_was_run(report["run"])]


def tables(rows: Sequence[Mapping[str, Any]]) -> list[Table]:
    """One for each task."""
    tasks = dict.fromkeys(row["task"] for row in rows)
    return [
        table_of(COLUMNS, [row for row in rows if row["task"] == task], names=2, title=task)
        for task in tasks
    ]


def short(model: str) -> str:
    """A model's name in tables: the last part of a path."""
    return Path(model).name


def warnings(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which models have collapsed, on what."""
    collapsed = dict.fromkeys((row["model"], row["task"]) for row in rows if row["collapsed"])
    return [
        f"{short(model)} has collapsed on {task}: its speed is that of texts which are wrong or "
        "repeat themselves"
        for model, task in collapsed
    ]


def whole(number: int | None) -> str:
    """A count with its thousands apart."""
    return NONE if number is None else f"{number:,}"


def figures_of(report: Mapping[str, Any]) -> Figures:
    """By tokens of a block: several sizes of one model, and models in blocks of their own size."""
    rows = [row for row in report["rows"] if block_of(row["decoding"])]
    figures: dict[str, Any] = {}
    if several(row for row in rows if row["model"] == report["rows"][0]["model"]):
        by_block = partial(figure_blocks, rows, ("tokens_per_forward", "speedup"))
        figures["blocks"] = BLOCKS, by_block
    trained = [
        {**row, "model": "models"}
        for row in rows
        if block_of(row["decoding"]) == row["trained_block"]
    ]
    if several(trained):
        of_trained = partial(figure_blocks, trained, ("quality", "speedup"))
        figures["trained-blocks"] = TRAINED_BLOCKS, of_trained
    return figures


def several(rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether rows have blocks of different sizes."""
    return len({block_of(row["decoding"]) for row in rows}) > 1


def block_of(decoding: str) -> int:
    """Tokens of a block of Jacobi decoding in block form, by its label; 0 for other methods."""
    name, *options = decoding.split(":")
    values = dict(option.split("=", 1) for option in options)
    return int(values.get("block", 0)) if name == "jacobi" else 0


NAMES = {
    "tokens_per_forward": "tokens per forward", "speedup": "speed-up", "quality": "quality",
}  # fmt: skip


def figure_blocks(rows: Sequence[Mapping[str, Any]], panel_names: Sequence[str]) -> Figure:
    """A panel for each value named; a line per model and task in all."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    panels = figure.subplots(1, len(panel_names))
    lines = list(dict.fromkeys((row["model"], row["task"]) for row in rows))
    for number, line in enumerate(lines):
        of_line = [row for row in rows if (row["model"], row["task"]) == line]
        of_line.sort(key=lambda row: block_of(row["decoding"]))
        sizes = [block_of(row["decoding"]) for row in of_line]
        for axes, name in zip(panels, panel_names, strict=True):
            axes.plot(sizes, [row[name] for row in of_line], **style_of(number), markersize=4)
    for axes, name in zip(panels, panel_names, strict=True):
        if name != "quality":
            axes.axhline(1, color=FAINT, linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("tokens of a block")
        axes.set_ylabel(NAMES[name])
    names = [f"{short(model)}, {task}" for model, task in lines]
    add_legend(figure, [(style_of(number), name) for number, name in enumerate(names)])
    return figure


def write_view(path: Path, prompt: str, model: str, blocks: Sequence[Any]) -> None:
    """A page of the trajectories of one text's blocks."""
    page: list[Block] = [Words(prompt), Words(ABOUT_VIEW)]
    for number, states in enumerate(blocks, 1):
        page += [Heading(f"Block {number}, {len(states) - 1} iterations"), States(states)]
    path.write_text(webpage(f"How {model} made a text", page), encoding="utf-8")
