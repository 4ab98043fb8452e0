"""From records to the bench's document: one row per contender and task, as `bench --json` prints them."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from leapdecode.measure.bench import BASELINE, COUNTS, Record
from leapdecode.measure.contenders import Contender
from leapdecode.measure.intervals import median_interval
from leapdecode.measure.loops import LOOPING

SCHEMA = 1


def document(run: dict[str, Any], records: Sequence[Record], contenders: Sequence[Contender]) -> dict[str, Any]:
    """`run` is what was measured on what; rows are in the order of tasks and contenders."""
    tasks = list(dict.fromkeys(record.task for record in records))
    rows = []
    for task in tasks:
        plain = [record for record in records if (record.task, record.contender) == (task, BASELINE)]
        for contender in contenders:
            own = [record for record in records if (record.task, record.contender) == (task, contender.label)]
            if own:
                rows.append(row(contender, task, own, plain))
    return {"schema": SCHEMA, "run": run, "rows": rows}


def row(contender: Contender, task: str, own: list[Record], plain: list[Record]) -> dict[str, Any]:
    """Sums, medians and intervals of one contender on one task.

    `not_looping` has the same speed and hits over units without looping texts, `decode_speedup` the speed-up without
    the time to the first token.
    """
    calm = [record for record in own if record.repeated <= LOOPING]
    memory = max(record.peak_memory for record in own)
    first = [record.first_token for record in own if record.first_token is not None]
    composition = sums(record.composition for record in own)
    whole = sum(composition.values())
    return {
        "method": contender.label,
        "options": contender.options,
        "task": task,
        "texts": sum(record.texts for record in own),
        **speed(own, plain),
        **hits(own),
        "accepted_lengths": dict(sorted(sums(r.accepted for r in own).items(), key=lambda pair: int(pair[0]))),
        "time_to_first_token": statistics.median(first) if first else None,
        "time_composition": {name: value / whole for name, value in composition.items()} if whole else {},
        "peak_memory": memory,
        "quality": quality(own),
        "identical": sum(record.verdicts[0] for record in own),
        "tie_explained": sum(record.verdicts[1] for record in own),
        "unexplained": sum(record.verdicts[2] for record in own),
        "exact": all(record.exact for record in own),
        "worst_margin": max((margin for record in own for margin, _ in record.margins), default=0.0),
        "audit_seconds": sum(record.audit_seconds for record in own),
        "not_looping": {"generations": len(calm), **(speed(calm, plain) | hits(calm) if calm else {})},
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

    Repeats of one unit are not independent of each other, so the interval is over the units' medians (over the rounds
    where there is one unit).
    """
    base = {(record.unit, record.round): record for record in plain}
    pairs = [(record, base[record.unit, record.round]) for record in own if (record.unit, record.round) in base]
    ratios: dict[int, list[float]] = {}
    for record, other in pairs:
        own_rate, other_rate = rate(record.tokens, record.seconds), rate(other.tokens, other.seconds)
        ratios.setdefault(record.unit, []).append(own_rate / other_rate)
    late: dict[int, list[float]] = {}
    for record, other in pairs:
        mine, theirs = later(record), later(other)
        if mine and theirs:
            late.setdefault(record.unit, []).append(rate(*mine) / rate(*theirs))
    units = [statistics.median(found) for found in ratios.values()]
    median, low, high = median_interval(units if len(units) > 1 else next(iter(ratios.values())))
    seconds, tokens = sum(record.seconds for record in own), sum(record.tokens for record in own)
    return {
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "speedup": median,
        "speedup_interval": [low, high],
        "decode_speedup": statistics.median(map(statistics.median, late.values())) if late else None,
        "pairs": len(pairs),
        "units": len(units),
    }


def later(record: Record) -> tuple[int, float] | None:
    """(tokens, seconds) behind the first forward that gave tokens; None where there are none or it is not known."""
    tokens = record.tokens - record.first_tokens
    return (tokens, record.seconds - record.first_token) if record.first_token and tokens > 0 else None


def rate(tokens: int, seconds: float) -> float:
    """Tokens per second."""
    return max(tokens, 1) / max(seconds, 1e-9)


def hits(own: list[Record]) -> dict[str, Any]:
    """Forwards and rows by name (None where a contender cannot count them), and tokens per forward."""
    counted = sums(record.counts for record in own)
    found: dict[str, Any] = {name: counted.get(name) for name in COUNTS}
    forwards = counted.get("target_forwards", 0) - counted.get("prefill_forwards", 0)
    found["tokens_per_forward"] = sum(record.tokens for record in own) / forwards if forwards else None
    # Without the prompt but for its last token, the first root: plain decoding evaluates one row per forward.
    prompts = sum(record.prompt_tokens - record.texts for record in own)
    rows, matched = counted.get("target_rows"), counted.get("matched_tokens")
    found["matched_per_forward"] = None if matched is None or not forwards else matched / forwards
    found["decode_rows"] = None if rows is None else rows - prompts
    found["rows_per_forward"] = (rows - prompts) / forwards if forwards and rows is not None else None
    return found


def quality(own: list[Record]) -> float | None:
    """Mean score of the texts of the first round, None without a checker."""
    scores = [score for record in own if record.round == 0 for score in record.scores if score is not None]
    return statistics.mean(scores) if scores else None
