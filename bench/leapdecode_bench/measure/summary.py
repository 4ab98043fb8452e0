"""From records to the bench's document: one row per contender and task."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from leapdecode_bench.measure.intervals import median_interval
from leapdecode_bench.measure.records import BASELINE, COUNTS, LOOPING, Record

SCHEMA = 1
# Of a row, what pages and plots are made of.
NEEDED = frozenset((
    "accepted_lengths", "decode_rows", "decode_speedup", "draft_forwards", "identical",
    "method", "not_looping", "options", "pairs", "peak_memory", "prefill_forwards", "quality",
    "rows_per_forward", "speedup", "speedup_interval", "target_forwards", "task", "texts",
    "tie_explained", "time_composition", "time_to_first_token", "tokens", "tokens_per_forward",
    "tokens_per_second", "unexplained", "units",
))  # fmt: skip


class Labelled(Protocol):
    """A contender as far as a document goes: its name in tables, and its options."""

    @property
    def label(self) -> str: ...
    @property
    def options(self) -> dict[str, Any]: ...


def document(
    run: dict[str, Any],
    records: Sequence[Record],
    contenders: Sequence[Labelled],
) -> dict[str, Any]:
    """`run` is what was measured on what; rows are in the order of tasks and contenders."""
    return {"schema": SCHEMA, "run": run, "rows": rows_of(records, contenders)}


def complete(records: Sequence[Record], contenders: Sequence[Labelled]) -> list[Record]:
    """The records of rounds that have one of every contender, so that each has its pair."""
    labels = {contender.label for contender in contenders}
    measured: dict[tuple[str, int, int], set[str]] = {}
    for record in records:
        measured.setdefault(record.turn, set()).add(record.contender)
    return [record for record in records if measured[record.turn] == labels]


def rows_of(
    records: Sequence[Record], contenders: Sequence[Labelled], baseline: str = BASELINE
) -> list[dict[str, Any]]:
    """A row per task and contender, in their order; speed-ups are over the one that is labelled
    `baseline`.
    """
    rows = []
    for task in dict.fromkeys(record.task for record in records):
        done = [record for record in records if record.task == task]
        plain = [record for record in done if record.contender == baseline]
        for contender in contenders:
            records_of_contender = [
                record for record in done if record.contender == contender.label
            ]
            if records_of_contender:
                rows.append(row(contender, task, records_of_contender, plain))
    return rows


def row(
    contender: Labelled, task: str, records: list[Record], references: list[Record]
) -> dict[str, Any]:
    """Sums, medians and intervals of one contender on one task.

    `not_looping` has the same speed and hits over units without looping texts, `decode_speedup` the
    speed-up without the time to the first token.
    """
    calm = [record for record in records if record.repeated <= LOOPING]
    memory = max(record.peak_memory for record in records)
    first = [record.first_token for record in records if record.first_token is not None]
    accepted = sums(record.accepted for record in records)
    composition = sums(record.composition for record in records)
    whole = sum(composition.values()) or 1.0
    margins = [margin for record in records for margin, _ in record.margins]
    return {
        "method": contender.label,
        "options": contender.options,
        "task": task,
        "texts": sum(record.texts for record in records),
        **speed(records, references),
        **forward_counts(records),
        "accepted_lengths": dict(sorted(accepted.items(), key=lambda pair: int(pair[0]))),
        "time_to_first_token": statistics.median(first) if first else None,
        "time_composition": {name: value / whole for name, value in composition.items()},
        "peak_memory": memory,
        "quality": quality(records),
        "identical": sum(record.verdicts[0] for record in records),
        "tie_explained": sum(record.verdicts[1] for record in records),
        "unexplained": sum(record.verdicts[2] for record in records),
        "exact": all(record.exact for record in records),
        "worst_margin": max(margins, default=0.0),
        "audit_seconds": sum(record.audit_seconds for record in records),
        "not_looping": {
            "generations": len(calm),
            **(speed(calm, references) | forward_counts(calm) if calm else {}),
        },
    }


def sums(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Values added up by key."""
    total: Counter[str] = Counter()
    for part in parts:
        for key, value in part.items():
            total[key] += value
    return dict(total)


def speed(records: list[Record], references: list[Record]) -> dict[str, Any]:
    """Tokens, seconds and the paired speed-ups over plain decoding.

    Repeats of one unit are not independent of each other, so the interval is over the units'
    medians (over the rounds where there is one unit).
    """
    by_turn = {(record.unit, record.round): record for record in references}
    ratios: dict[int, list[float]] = {}
    ratios_after_first: dict[int, list[float]] = {}
    for record in records:
        reference = by_turn.get((record.unit, record.round))
        if reference is None:
            continue
        ratios.setdefault(record.unit, []).append(pace(record) / pace(reference))
        after_first = after_first_token(record)
        reference_after_first = after_first_token(reference)
        if after_first and reference_after_first:
            ratio = rate(*after_first) / rate(*reference_after_first)
            ratios_after_first.setdefault(record.unit, []).append(ratio)
    units = [statistics.median(values) for values in ratios.values()]
    units_after_first = [statistics.median(values) for values in ratios_after_first.values()]
    median, low, high = median_interval(units if len(units) > 1 else next(iter(ratios.values())))
    seconds = sum(record.seconds for record in records)
    tokens = sum(record.tokens for record in records)
    return {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "speedup": median,
        "speedup_interval": [low, high],
        "decode_speedup": statistics.median(units_after_first) if units_after_first else None,
        "pairs": sum(map(len, ratios.values())),
        "units": len(units),
    }


def after_first_token(record: Record) -> tuple[int, float] | None:
    """(tokens, seconds) after the first forward that gave tokens; None where not known."""
    tokens = record.tokens - record.first_tokens
    if not record.first_token or tokens <= 0:
        return None
    return tokens, record.seconds - record.first_token


def rate(tokens: int, seconds: float) -> float:
    """Tokens per second."""
    return max(tokens, 1) / max(seconds, 1e-9)


def pace(*records: Record) -> float:
    """Tokens per second of all records together."""
    seconds = sum(record.seconds for record in records)
    return rate(sum(record.tokens for record in records), seconds)


def forward_counts(records: list[Record]) -> dict[str, Any]:
    """Forwards and rows by name (None where they are not counted), and tokens per forward."""
    counted = sums(record.counts for record in records)
    figures: dict[str, Any] = {name: counted.get(name) for name in COUNTS}
    forwards = counted.get("target_forwards", 0) - counted.get("prefill_forwards", 0)
    tokens = sum(record.tokens for record in records)
    figures["tokens_per_forward"] = tokens / forwards if forwards else None
    # Without the prompt but for its last token: plain decoding has one row per forward.
    prompts = sum(record.prompt_tokens - record.texts for record in records)
    rows, matched = counted.get("target_rows"), counted.get("matched_tokens")
    figures["matched_per_forward"] = None if matched is None or not forwards else matched / forwards
    decoded = None if rows is None else rows - prompts
    figures["decode_rows"] = decoded
    figures["rows_per_forward"] = decoded / forwards if forwards and decoded is not None else None
    return figures


def quality(records: list[Record]) -> float | None:
    """Mean score of the texts of the first round, None without a checker."""
    first = [score for record in records if record.round == 0 for score in record.scores]
    scores = [score for score in first if score is not None]
    return statistics.mean(scores) if scores else None
