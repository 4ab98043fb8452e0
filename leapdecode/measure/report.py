"""A bench's document for readers: the table, and a folder with a page in HTML and in Markdown, plots and the document.

The document is what `summary.document` makes; the page says what was run, what came out, and how to read it.
"""

import json
import os
import shlex
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.measure import plots
from leapdecode.measure.bench import TIMES
from leapdecode.measure.canvas import inline
from leapdecode.measure.loops import LOOPING
from leapdecode.measure.pages import Block, Code, Facts, Heading, Picture, Table, Words, clean, markdown, webpage

HEAD: tuple[str, ...] = (
    "task", "method", "tokens/\nsecond", "speed-up", "tokens/\nforward", "rows/\nforward", "forwards", "quality",
    "identical",
)  # fmt: skip
NONE = "-"
PARTS = (*TIMES, "other")
SET_APART = ("note", "argv", "settings", "row_costs")  # of a run; they have their own places or none
IN_SHORT = ("sizes", "dtype", "compiled", "device", "sampling")  # of a run; what the page begins with
HOW_TO_READ = (
    "Speed-up: every prompt was decoded by all methods in turn; a round's ratio is that of tokens per second to plain "
    "decoding's in the same round. A prompt (or batch) counts with the median of its rounds; the speed-up is the "
    "median over prompts, followed by its 95% interval. With up to five prompts the interval is their range. An "
    "interval that holds 1 shows no difference.",
    "Tokens per forward: tokens gained per forward of the target that gave tokens; plain decoding has 1. Rows per "
    "forward: tokens that the target evaluated for it, the prompt left out. Forwards: of the target; of the draft "
    "where there is one. Matched per forward: guesses that are what the target chose behind the guess before them, "
    "accepted or not. Quality: mean score of the task's own checker, from 0 to 1.",
    "Identical: texts with every token equal to plain decoding's. A text that differs is fed through single-row "
    "forwards: a tie is a text whose every choice is within floating-point noise of plain decoding's; any other is "
    "unexplained, and is a fault. Texts that were not compared have no count.",
)
NO_PLOTS = "Without plots, which need matplotlib: pip install 'leapdecode[bench]'."


def shown(value: float | None, text: str = "{:.2f}") -> str:
    return NONE if value is None else text.format(value)


def compact(value: float | None) -> str:
    """A size or rate in about three digits."""
    return shown(value, "{:.0f}" if value is None or value >= 100 else "{:.1f}" if value >= 10 else "{:.2f}")


def scaled(value: float | None, units: tuple[tuple[float, str], ...]) -> str:
    """A value in the first unit that it reaches, else in the last; units are sizes with names, the largest first."""
    if value is None:
        return NONE
    size, name = next((unit for unit in units if value >= unit[0]), units[-1])
    return compact(value / size) + name


def parameters(count: int) -> str:
    return scaled(count, ((1e9, "B"), (1e6, "M"), (1e3, "k"), (1, "")))


def seconds(value: float | None) -> str:
    return scaled(value, ((1, " s"), (1e-3, " ms")))


def memory(value: int) -> str:
    return scaled(value or None, ((1 << 30, " GiB"), (1 << 20, " MiB")))


def speedup(row: dict[str, Any]) -> str:
    """The median with its interval, without it where it has no width."""
    if row.get("speedup") is None:
        return NONE
    low, high = row["speedup_interval"]
    return f"{row['speedup']:.2f}x" + (f" {low:.2f}-{high:.2f}" if low < high else "")


def identical(row: dict[str, Any]) -> str:
    """Identical texts of those compared, and what the others are."""
    ties, unexplained = row["tie_explained"], row["unexplained"]
    compared = row["identical"] + ties + unexplained
    if not compared:
        return NONE
    others = [f"{ties} {'tie' if ties == 1 else 'ties'}"] * bool(ties) + [f"{unexplained} unexplained"] * bool(
        unexplained
    )
    return ", ".join([f"{row['identical']}/{compared}", *others])


def cells(row: dict[str, Any]) -> list[str]:
    """A row of the document under `HEAD`, "-" for what is not known."""
    drafts = row["draft_forwards"]
    return [
        clean(row["task"]),
        clean(row["method"]),
        compact(row["tokens_per_second"]),
        speedup(row),
        shown(row["tokens_per_forward"]),
        compact(row["rows_per_forward"]),
        shown(row["target_forwards"], "{}") + (f"; {drafts}" if drafts else ""),
        shown(row["quality"]),
        identical(row),
    ]


def write_files(report: dict[str, Any], folder: Path) -> None:
    """Write results.json, report.md, report.html and plots/ into `folder`, each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = plots.draw(report) if plots.available() else None
    pictures = {name: Picture(inline(svg, name, caption), f"plots/{name}.png", caption)
                for name, (caption, svg, _) in (drawn or {}).items()}  # fmt: skip
    if drawn:
        (folder / "plots").mkdir(exist_ok=True)
        for name, (_, svg, png) in drawn.items():
            put(folder / "plots" / f"{name}.svg", svg.encode())
            put(folder / "plots" / f"{name}.png", png)
    title = f"{report['run'].get('model', 'model')}: methods against plain decoding"
    page = blocks(report, pictures, with_plots=drawn is not None)
    put(folder / "report.md", markdown(title, page).encode())
    put(folder / "report.html", webpage(title, page).encode())
    put(folder / "results.json", (json.dumps(report, indent=2) + "\n").encode())


def put(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(content)
    os.replace(beside, path)


def blocks(report: dict[str, Any], pictures: dict[str, Picture], with_plots: bool) -> list[Block]:
    """The page: results, how to read them, each task, what was run."""
    run, rows = report["run"], report["rows"]
    page: list[Block] = [Words("; ".join(fact(name, run[name]) for name in IN_SHORT if run.get(name)))]
    page += [Words(run["note"], strong=True)] if run.get("note") else []
    page.append(Table([name.replace("\n", "") for name in HEAD], [cells(row) for row in rows], names=2))
    if any(row["unexplained"] for row in rows):
        page.append(Words("Some texts differ from plain decoding's without an explanation.", strong=True))
    page += [] if with_plots else [Words(NO_PLOTS)]
    page += [pictures[name] for name in ("speedup", "rows", "accepted", "scaling") if name in pictures]
    page += [Heading("How to read this"), *map(Words, HOW_TO_READ)]
    for task in dict.fromkeys(row["task"] for row in rows):
        page += task_blocks(task, [row for row in rows if row["task"] == task])
    page += [Heading("What was run"), *run_blocks(run)]
    return page + ([pictures["row_costs"]] if "row_costs" in pictures else [])


Column = tuple[str, Callable[[dict[str, Any]], str]]
PER_TASK: tuple[Column, ...] = (
    ("texts", lambda row: str(row["texts"])),
    ("pairs", lambda row: f"{row['pairs']} of {row['units']} prompts"),
    ("speed-up after the first token", lambda row: shown(row["decode_speedup"], "{:.2f}x")),
    ("matched/forward", lambda row: shown(row.get("matched_per_forward"))),
    ("time to first token", lambda row: seconds(row["time_to_first_token"])),
    ("peak memory", lambda row: memory(row["peak_memory"])),
    ("identical", lambda row: str(row["identical"])),
    ("ties", lambda row: str(row["tie_explained"])),
    ("unexplained", lambda row: str(row["unexplained"])),
)
CALM: tuple[Column, ...] = (
    ("generations", lambda row: f"{row['not_looping']['generations']} of {row['pairs']}"),
    ("speed-up", lambda row: speedup(row["not_looping"])),
    ("tokens/forward", lambda row: shown(row["not_looping"].get("tokens_per_forward"))),
)


def table(title: str, rows: list[dict[str, Any]], columns: Iterable[Column]) -> Table:
    """A table with a row per method."""
    columns = list(columns)
    lines = [[clean(row["method"]), *(make(row) for _, make in columns)] for row in rows]
    return Table(["method", *(name for name, _ in columns)], lines, title=title)


def task_blocks(task: str, rows: list[dict[str, Any]]) -> list[Block]:
    """What there is to say about one task beyond the page's table."""
    found: list[Block] = [Heading(task), table("Pairs, guesses, start, memory, and texts compared", rows, PER_TASK)]
    timed = [row for row in rows if row["time_composition"]]
    if timed:
        parts = [part for part in PARTS if any(row["time_composition"].get(part) for row in timed)]
        columns = [(part, lambda row, part=part: shown(row["time_composition"].get(part), "{:.1%}")) for part in parts]
        found.append(table("Where the time went", timed, columns))
    if any(row["not_looping"]["generations"] < row["pairs"] for row in rows):
        apart = f"Without looping texts (over {LOOPING:.0%} repeated 4-grams), on which any method gains"
        return [*found, table(apart, rows, CALM)]
    return [*found, Words(f"No text looped: none has over {LOOPING:.0%} repeated 4-grams.")]


def run_blocks(run: dict[str, Any]) -> list[Block]:
    """The command, the facts, and what a forward costs."""
    facts = [(name, fact(name, value)) for name, value in run.items() if name not in SET_APART and value is not None]
    found: list[Block] = [Code("leapdecode " + shlex.join(run["argv"]))] if run.get("argv") else []
    found.append(Facts(facts))
    costs = {(cost["rows"], cost["context"]): cost for cost in run.get("row_costs") or []}
    if costs:
        contexts = sorted({context for _, context in costs})
        lines = [
            [str(rows), *(cost_of(costs.get((rows, context))) for context in contexts)]
            for rows in sorted({rows for rows, _ in costs})
        ]
        heads = ["rows", *(f"{context} tokens cached" for context in contexts)]
        found.append(Table(heads, lines, title="Time of a forward, and its ratio to one row"))
    return found


def cost_of(cost: dict[str, Any] | None) -> str:
    return NONE if cost is None else f"{compact(cost['milliseconds'])} ms ({cost['ratio']:.2f}x)"


def fact(name: str, value: Any) -> str:
    """A fact of the run in words."""
    if name == "sampling":
        return sampling(value)
    if isinstance(value, dict):
        said = {key: parameters(given) if name == "sizes" else given for key, given in value.items()}
        return ", ".join(f"{key} {given}" for key, given in said.items()) + " parameters" * (name == "sizes")
    return str(value)


def sampling(values: dict[str, Any]) -> str:
    """The most tokens, and what is not the default; the seed is the run's."""
    usual = asdict(SamplingParams(seed=values.get("seed", 0))) | {"max_tokens": None}
    others = [f"{key} {value}" for key, value in values.items() if (value or None) != (usual.get(key) or None)]
    return ", ".join(["greedy"] * (not values.get("temperature")) + others)
