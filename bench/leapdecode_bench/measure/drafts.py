"""What a draft brings: agreement, how long its guesses hold, and speed with and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.training.distill import agreement_text
from leapdecode_bench.measure.bench import Bench
from leapdecode_bench.measure.cells import compact, shown, speedup
from leapdecode_bench.measure.contenders import Ours
from leapdecode_bench.measure.pages import Block, Heading, Table, Words
from leapdecode_bench.measure.publish import publish
from leapdecode_bench.measure.records import BASELINE, Record
from leapdecode_bench.measure.results import Entry, complete
from leapdecode_bench.measure.summary import rows_of

if TYPE_CHECKING:
    from leapdecode.core import SamplingParams
    from leapdecode.llm import LLM
    from leapdecode_bench.measure.bench import Workload

DEEPEST = 7
CHAIN = f"draft_model:gamma={DEEPEST}"  # whose guesses are counted by depth
WITHOUT = "without the draft"
HEAD = ("task", "decoding", "tokens/forward", "tokens/second", "speed-up", "identical")
HELD = (
    "Held: the share of drafts, each a chain of at most 7 tokens, of which at least so many "
    "tokens were what the target says."
)


def bench_of(
    llm: LLM, draftless: LLM, workloads: Sequence[Workload], sampling: SamplingParams,
    rounds: int = 1,
) -> Bench:  # fmt: skip
    """Plain decoding, a chain of drafts, and `auto` with and without the draft."""
    contenders = [
        Ours(llm, BASELINE),
        Ours(draftless, "auto", whose=WITHOUT),
        Ours(llm, "auto"),
        Ours(llm, "draft_model", {"gamma": DEEPEST}),
    ]
    return Bench(llm, contenders, workloads, sampling, rounds)


def document(
    records: Sequence[Record], entries: Sequence[Entry], facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Rows per task and method; `held` by depth, over all tasks; `facts` of the draft."""
    whole = complete(list(records), {one.label for one in entries})
    rows = rows_of(whole, entries)
    chains = [one["accepted_lengths"] for one in rows if one["method"] == CHAIN]
    return {"schema": 1, **facts, "held": held(chains), "rows": rows}


def held(lengths: Sequence[Mapping[str, int]]) -> list[float]:
    """By depth, from 1 on, the share of steps that accepted at least so many guessed tokens.

    An accepted length counts the token that the target adds, so it is one more than the guesses.
    """
    steps = sum(sum(one.values()) for one in lengths)
    return [
        sum(
            times for one in lengths for length, times in one.items() if int(length) > depth
        )
        / max(steps, 1)
        for depth in range(1, DEEPEST + 1)
    ]  # fmt: skip


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """report.json, report.md and report.html."""
    title = f"A draft for {report['run']['model']}"
    publish(folder / "report.json", title, report, blocks(report), {})


def blocks(report: Mapping[str, Any]) -> list[Block]:
    """The page."""
    page: list[Block] = [
        Words(agreement_text(report)),
        Table(HEAD, [cells(one) for one in report["rows"]], names=2),
        Heading("How long drafts hold"),
        Words(HELD),
    ]
    depths = [str(depth) for depth in range(1, len(report["held"]) + 1)]
    page.append(Table(depths, [[f"{100 * share:.0f}%" for share in report["held"]]], names=0))
    return page


def cells(one: Mapping[str, Any]) -> list[str]:
    """A row by the names of `HEAD`."""
    return [
        one["task"],
        one["method"],
        shown(one["tokens_per_forward"]),
        compact(one["tokens_per_second"]),
        speedup(dict(one)),
        f"{one['identical']} of {one['texts']}",
    ]
