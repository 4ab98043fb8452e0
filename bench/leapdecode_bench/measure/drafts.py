"""What a draft brings: agreement, how long its guesses hold, and speed with and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.training.distill import agreement_text
from leapdecode_bench.measure.bench import Bench
from leapdecode_bench.measure.cells import compact, percent, shown, speedup
from leapdecode_bench.measure.contenders import Ours
from leapdecode_bench.measure.pages import Block, Columns, Heading, Table, Words, table_of
from leapdecode_bench.measure.publish import publish
from leapdecode_bench.measure.records import BASELINE, Record
from leapdecode_bench.measure.report import what_was_run
from leapdecode_bench.measure.summary import Labelled, complete, rows_of

if TYPE_CHECKING:
    from leapdecode.core import SamplingParams
    from leapdecode.llm import LLM
    from leapdecode_bench.measure.bench import Workload

DEEPEST = 7
CHAIN = f"draft_model:gamma={DEEPEST}"  # whose guesses are counted by depth
WITHOUT = "without the draft"
COLUMNS: Columns = {
    "task": lambda row: row["task"],
    "decoding": lambda row: row["method"],
    "tokens/forward": lambda row: shown(row["tokens_per_forward"]),
    "tokens/second": lambda row: compact(row["tokens_per_second"]),
    "speed-up": speedup,
    "identical": lambda row: f"{row['identical']} of {row['texts']}",
}
HELD = (
    "Held: the share of drafts, each a chain of at most 7 tokens, of which at least so many "
    "tokens were what the target says."
)


def bench_of(
    llm: LLM,
    draftless: LLM,
    workloads: Sequence[Workload],
    sampling: SamplingParams,
    rounds: int = 1,
) -> Bench:
    """Plain decoding, a chain of drafts, and `auto` with and without the draft."""
    contenders = [
        Ours(llm, BASELINE),
        Ours(draftless, "auto", prefix=WITHOUT),
        Ours(llm, "auto"),
        Ours(llm, "draft_model", {"gamma": DEEPEST}),
    ]
    return Bench(llm, contenders, workloads, sampling, rounds)


def document(
    records: Sequence[Record], contenders: Sequence[Labelled], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Rows per task and method; `held` by depth, over all tasks; `facts` of the draft."""
    rows = rows_of(complete(records, contenders), contenders)
    chains = [row["accepted_lengths"] for row in rows if row["method"] == CHAIN]
    return {"schema": 1, **facts, "held": held(chains), "rows": rows}


def held(lengths: Sequence[Mapping[str, int]]) -> list[float]:
    """By depth, from 1 on, the share of steps that accepted at least so many guessed tokens.

    An accepted length counts the token that the target adds, so it is one more than the guesses.
    """
    steps = sum(sum(histogram.values()) for histogram in lengths)
    return [
        sum(
            times
            for histogram in lengths
            for length, times in histogram.items()
            if int(length) > depth
        )
        / max(steps, 1)
        for depth in range(1, DEEPEST + 1)
    ]


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """report.json, report.md and report.html."""
    title = f"A draft for {report['run']['model']}"
    publish(folder / "report.json", title, report, lambda pictures: blocks(report), {})


def blocks(report: Mapping[str, Any]) -> list[Block]:
    """The page."""
    shares = {str(depth): share for depth, share in enumerate(report["held"], 1)}
    return [
        Words(agreement_text(report)),
        table_of(COLUMNS, report["rows"], names=2),
        Heading("How long drafts hold"),
        Words(HELD),
        Table(list(shares), [[percent(share) for share in shares.values()]], names=0),
        *what_was_run(report["run"]),
    ]
