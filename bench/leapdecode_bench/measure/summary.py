"""From records to the bench's document: one row per contender and task."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from leapdecode_bench.measure.intervals import median_interval
from leapdecode_bench.measure.loops import LOOPING
from leapdecode_bench.measure.records import BASELINE, COUNTS, Record

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
            own = [record for record in done if record.contender == contender.label]
            if own:
                rows.append(row(contender, task, own, plain))
    return rows


def row(contender: Labelled, task: str, own: list[Record], plain: list[Record]) -> dict[str, Any]:
    """Sums, medians and intervals of one contender on one task.

    `not_looping` has the same speed and hits over units without looping texts, `decode_speedup` the
    speed-up without the time to the first token.
    """
    calm = [record for record in own if record.repeated <= LOOPING]
    memory = max(record.peak_memory for record in own)
    first = [record.first_token for record in own if record.first_token is not None]
    accepted = sums(record.accepted for record in own)
    composition = sums(record.composition for record in own)
    whole = sum(composition.values()) or 1.0
    margins = [margin for record in own for margin, _ in record.margins]
    return {
        "method": contender.label,
        "options": contender.options,
        "task": task,
        "texts": sum(record.texts for record in own),
        **speed(own, plain),
        **hits(own),
        "accepted_lengths": dict(sorted(accepted.items(), key=lambda pair: int(pair[0]))),
        "time_to_first_token": statistics.median(first) if first else None,
        "time_composition": {name: value / whole for name, value in composition.items()},
        "peak_memory": memory,
        "quality": quality(own),
        "identical": sum(record.verdicts[0] for record in own),
        "tie_explained": sum(record.verdicts[1] for record in own),
        "unexplained": sum(record.verdicts[2] for record in own),
        "exact": all(record.exact for record in own),
        "worst_margin": max(margins, default=0.0),
        "audit_seconds": sum(record.audit_seconds for record in own),
        "not_looping": {
            "generations": len(calm),
            **(speed(calm, plain) | hits(calm) if calm else {}),
        },
    }


def sums(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Values added up by key."""
    total: Counter[str] = Counter()
    for part in parts:
        for key, value in part.items():
            total[key] += value
    return dict(total)


def speed(own: list[Record], plain: list[Record]) -> dict[str, Any]:
    """Tokens, seconds and the paired speed-ups over plain decoding.

    Repeats of one unit are not independent of each other, so the interval is over the units'
    medians (over the rounds where there is one unit).
    """
    base = {(record.unit, record.round): record for record in plain}
    found = [(record, base.get((record.unit, record.round))) for record in own]
    pairs = [(record, other) for record, other in found if other]
    ratios: dict[int, list[float]] = {}
    for record, other in pairs:
        own_rate, other_rate = (
            rate(record.tokens, record.seconds),
            rate(other.tokens, other.seconds),
        )
        ratios.setdefault(record.unit, []).append(own_rate / other_rate)
    late: dict[int, list[float]] = {}
    for record, other in pairs:
        mine, theirs = later(record), later(other)
        if mine and theirs:
            late.setdefault(record.unit, []).append(rate(*mine) / rate(*theirs))
    units = [statistics.median(values) for values in ratios.values()]
    after_first = [statistics.median(values) for values in late.values()]
    median, low, high = median_interval(units if len(units) > 1 else next(iter(ratios.values())))
    seconds, tokens = sum(record.seconds for record in own), sum(record.tokens for record in own)
    return {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "speedup": median,
        "speedup_interval": [low, high],
        "decode_speedup": statistics.median(after_first) if after_first else None,
        "pairs": len(pairs),
        "units": len(units),
    }


def later(record: Record) -> tuple[int, float] | None:
    """(tokens, seconds) behind the first forward that gave tokens; None where not known."""
    tokens = record.tokens - record.first_tokens
    if not record.first_token or tokens <= 0:
        return None
    return tokens, record.seconds - record.first_token


def rate(tokens: int, seconds: float) -> float:
    """Tokens per second."""
    return max(tokens, 1) / max(seconds, 1e-9)


def hits(own: list[Record]) -> dict[str, Any]:
    """Forwards and rows by name (None where they are not counted), and tokens per forward."""
    counted = sums(record.counts for record in own)
    found: dict[str, Any] = {name: counted.get(name) for name in COUNTS}
    forwards = counted.get("target_forwards", 0) - counted.get("prefill_forwards", 0)
    tokens = sum(record.tokens for record in own)
    found["tokens_per_forward"] = tokens / forwards if forwards else None
    # Without the prompt but for its last token: plain decoding has one row per forward.
    prompts = sum(record.prompt_tokens - record.texts for record in own)
    rows, matched = counted.get("target_rows"), counted.get("matched_tokens")
    found["matched_per_forward"] = None if matched is None or not forwards else matched / forwards
    decoded = None if rows is None else rows - prompts
    found["decode_rows"] = decoded
    found["rows_per_forward"] = decoded / forwards if forwards and decoded is not None else None
    return found


def quality(own: list[Record]) -> float | None:
    """Mean score of the texts of the first round, None without a checker."""
    first = [score for record in own if record.round == 0 for score in record.scores]
    scores = [score for score in first if score is not None]
    return statistics.mean(scores) if scores else None
