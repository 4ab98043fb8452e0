"""A bench's document as a page: what came out, how to read it, each task, what was run.

The document is what `summary.document` makes; `results` writes the page into a folder.
"""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from leapdecode.core.sampling import SamplingParams
from leapdecode.plain import clean
from leapdecode_bench.measure.cells import (
    COLUMNS,
    NONE,
    compact,
    memory,
    parameters,
    seconds,
    shown,
    speedup,
)
from leapdecode_bench.measure.pages import (
    Block,
    Code,
    Columns,
    Facts,
    Heading,
    Table,
    Words,
    table_of,
)
from leapdecode_bench.measure.publish import Pictures, available
from leapdecode_bench.measure.records import LOOPING, TIMES

PARTS = (*TIMES, "other")
# of a run; shown elsewhere or nowhere
SET_APART = ("note", "argv", "program", "settings", "row_costs")
# what the page begins with
IN_SHORT = ("sizes", "dtype", "quantized", "compiled", "device", "processes", "sampling")
HOW_TO_READ = (
    "Speed-up: every prompt was decoded by all methods in turn; a round's ratio is that of tokens "
    "per second to plain decoding's in the same round. A prompt (or batch) counts with the median "
    "of its rounds; the speed-up is the median over prompts, followed by its 95% interval. With up "
    "to five prompts the interval is their range. An interval that holds 1 shows no difference.",
    "Tokens per forward: tokens gained per forward of the target that gave tokens; plain decoding "
    "has 1. Rows per forward: tokens that the target evaluated for it, the prompt left out. "
    "Forwards: of the target; of the draft where there is one. Matched per forward: guesses that "
    "are what the target chose behind the guess before them, accepted or not. Quality: mean score "
    "of the task's own checker, from 0 to 1.",
    "Identical: texts with every token equal to plain decoding's. A text that differs is fed "
    "through single-row forwards: a tie is a text whose every choice is within floating-point "
    "noise of plain decoding's; any other is unexplained, and is a fault. Texts that were not "
    "compared have no count.",
)
UNEXPLAINED = "Some texts differ from plain decoding's without an explanation."
NO_PLOTS = "Without plots, which need matplotlib: pip install leapdecode-bench."


def title(report: dict[str, Any]) -> str:
    return f"{report['run'].get('model', 'model')}: methods against plain decoding"


def blocks(report: dict[str, Any], pictures: Pictures) -> list[Block]:
    """The page: results, how to read them, each task, what was run."""
    run, rows = report["run"], report["rows"]
    page = outcome(report)
    page += [] if available() else [Words(NO_PLOTS)]
    shown_first = ("speedup", "rows", "accepted", "scaling", "option", "drafts")
    page += [pictures[name] for name in shown_first if name in pictures]
    page += [Heading("How to read this"), *map(Words, HOW_TO_READ)]
    for task in dict.fromkeys(row["task"] for row in rows):
        page += task_blocks(task, [row for row in rows if row["task"] == task])
    page += what_was_run(run)
    return page + ([pictures["row_costs"]] if "row_costs" in pictures else [])


def outcome(report: dict[str, Any]) -> list[Block]:
    """What was measured in short, and the table of all rows."""
    run, rows = report["run"], report["rows"]
    short = [fact(name, run[name]) for name in IN_SHORT if run.get(name)]
    page: list[Block] = [Words("; ".join(short))]
    page += [Words(run["note"], strong=True)] if run.get("note") else []
    columns = {name.replace("\n", ""): show for name, show in COLUMNS.items()}
    page.append(table_of(columns, rows, names=2))
    if any(row["unexplained"] for row in rows):
        page.append(Words(UNEXPLAINED, strong=True))
    return page


def with_captions(pictures: Pictures) -> list[Block]:
    """Pictures, each below a heading."""
    return [block for picture in pictures.values() for block in (Heading(picture.caption), picture)]


def command(run: dict[str, Any]) -> list[Block]:
    """The command line of the run, where it is known."""
    program = run.get("program", "leapdecode")
    return [Code(f"{program} {shlex.join(run['argv'])}")] if run.get("argv") else []


METHOD: Columns = {"method": lambda row: clean(row["method"])}
PER_TASK: Columns = METHOD | {
    "texts": lambda row: str(row["texts"]),
    "pairs": lambda row: f"{row['pairs']} of {row['units']} prompts",
    "speed-up after the first token": lambda row: shown(row["decode_speedup"], "{:.2f}x"),
    "matched/forward": lambda row: shown(row.get("matched_per_forward")),
    "time to first token": lambda row: seconds(row["time_to_first_token"]),
    "peak memory": lambda row: memory(row["peak_memory"]),
    "identical": lambda row: str(row["identical"]),
    "ties": lambda row: str(row["tie_explained"]),
    "unexplained": lambda row: str(row["unexplained"]),
}
CALM: Columns = METHOD | {
    "generations": lambda row: f"{row['not_looping']['generations']} of {row['pairs']}",
    "speed-up": lambda row: speedup(row["not_looping"]),
    "tokens/forward": lambda row: shown(row["not_looping"].get("tokens_per_forward")),
}


def task_blocks(task: str, rows: list[dict[str, Any]]) -> list[Block]:
    """What there is to say about one task beyond the page's table."""
    about = "Pairs, guesses, start, memory, and texts compared"
    page: list[Block] = [Heading(task), table_of(PER_TASK, rows, title=about)]
    timed = [row for row in rows if row["time_composition"]]
    if timed:
        page.append(table_of(composition(timed), timed, title="Where the time went"))
    if any(row["not_looping"]["generations"] < row["pairs"] for row in rows):
        apart = f"over {LOOPING:.0%} repeated 4-grams), on which any method gains"
        return [*page, table_of(CALM, rows, title=f"Without looping texts ({apart}")]
    return [*page, Words(f"No text looped: none has over {LOOPING:.0%} repeated 4-grams.")]


def composition(rows: list[dict[str, Any]]) -> Columns:
    """Columns with the share of each part of the engine that took time in any row."""

    def share(part: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda row: shown(row["time_composition"].get(part), "{:.1%}")

    taken = [part for part in PARTS if any(row["time_composition"].get(part) for row in rows)]
    return METHOD | {part: share(part) for part in taken}


def what_was_run(run: dict[str, Any]) -> list[Block]:
    """The command, the facts, and what a forward costs."""
    page: list[Block] = [Heading("What was run"), *command(run)]
    shown_facts = {name: value for name, value in run.items() if name not in SET_APART}
    facts = [(name, fact(name, value)) for name, value in shown_facts.items() if value is not None]
    costs = {(cost["rows"], cost["context"]): cost for cost in run.get("row_costs") or []}
    page.append(Facts(facts))
    if not costs:
        return page
    contexts = sorted({context for _, context in costs})
    lines = [
        [str(rows), *(cost_of(costs.get((rows, context))) for context in contexts)]
        for rows in sorted({rows for rows, _ in costs})
    ]
    heads = ["rows", *(f"{context} tokens cached" for context in contexts)]
    return [*page, Table(heads, lines, title="Time of a forward, and its ratio to one row")]


def cost_of(cost: dict[str, Any] | None) -> str:
    return NONE if cost is None else f"{compact(cost['milliseconds'])} ms ({cost['ratio']:.2f}x)"


def fact(name: str, value: Any) -> str:
    """A fact of the run in words."""
    if name == "sampling":
        return sampling(value)
    if isinstance(value, dict):
        sizes = name in ("sizes", "other_drafts")
        parts = [f"{key} {parameters(part) if sizes else part}" for key, part in value.items()]
        return ", ".join(parts) + " parameters" * sizes
    return str(value)


def sampling(values: dict[str, Any]) -> str:
    """The most tokens, and what is not the default; the seed is the run's."""
    usual = asdict(SamplingParams(seed=values.get("seed", 0))) | {"max_tokens": None}
    changed = {
        key: value for key, value in values.items() if (value or None) != (usual.get(key) or None)
    }
    changed_options = [f"{key} {value}" for key, value in changed.items()]
    return ", ".join(["greedy"] * (not values.get("temperature")) + changed_options)
