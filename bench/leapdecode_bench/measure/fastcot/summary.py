"""Records as the rows of a document: a contender each, against plain whole rationales."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode_bench.measure.fastcot.contenders import COT
from leapdecode_bench.measure.fastcot.records import BatchRecord, Key, Reply
from leapdecode_bench.measure.intervals import mean_interval, median_interval

WHOLE = ("stop", "length")  # how a rationale ends that nobody cut
By = Mapping[int, BatchRecord]


def rows(records: Sequence[BatchRecord], keys: Sequence[Key]) -> list[dict[str, Any]]:
    """A row per contender that has records, see `row`."""
    by_key = {key: {one.batch: one for one in records if one.key == key} for key in keys}
    plain = by_key.get((COT, None, 0, 0.0), {})
    return [row(key, found, plain) for key, found in by_key.items() if found]


def row(key: Key, own: By, plain: By) -> dict[str, Any]:
    """The figures of one contender.

    `saved_time` is the median, over batches, of the share of plain whole rationales' time that it
    saved; `loss` the mean, over questions, of their scores less its own, a share as accuracy is.
    Both have 95% intervals. `iterations` are all forwards that gave tokens, the answers' included,
    `iterations_saved` the tokens less them (the paper's IS, beside TI). `rationale_equal`: whether
    every exact part is what the plain rationale begins with, and all of it where nothing was cut.
    """
    name, bound, unchanged, confidence = key
    replies = replies_of(own)
    both = sorted(set(own) & set(plain))
    saved = [1 - own[batch].seconds / plain[batch].seconds for batch in both]
    pairs = [
        (mine, theirs)
        for batch in both
        for mine, theirs in zip(own[batch].replies, plain[batch].replies, strict=True)
    ]
    tokens = sum(one.tokens + one.answer_tokens for one in replies)
    iterations = sum(one.iterations + one.answer_iterations for one in replies)
    loss = mean_interval([theirs.score - mine.score for mine, theirs in pairs]) if pairs else None
    time = median_interval(saved) if saved else None
    return {
        "method": name,
        "bound": bound,
        "unchanged": unchanged or None,
        "confidence": confidence or None,
        "questions": len(replies),
        "batches": len(own),
        "accuracy": statistics.mean(one.score for one in replies),
        "loss": loss and loss[0],
        "loss_interval": loss and list(loss[1:]),
        "seconds": sum(one.seconds for one in own.values()),
        "saved_time": time and time[0],
        "saved_time_interval": time and list(time[1:]),
        "iterations": iterations,
        "iterations_saved": tokens - iterations,
        "tokens": tokens,
        "approximate": sum(one.approximate for one in replies),
        "ended": {how: [one.ended for one in replies].count(how) for how in endings(replies)},
        "time_composition": composition(own),
        "rationale_equal": all(begins(*pair) for pair in pairs) if pairs else None,
    }


def replies_of(own: By) -> list[Reply]:
    """All answers."""
    return [reply for record in own.values() for reply in record.replies]


def endings(replies: Sequence[Reply]) -> list[str]:
    """How rationales ended, in alphabetical order."""
    return sorted({one.ended for one in replies})


def composition(own: By) -> dict[str, float]:
    """Seconds by part, over all batches."""
    parts = next(iter(own.values())).times
    return {part: sum(one.times[part] for one in own.values()) for part in parts}


def begins(mine: Reply, plain: Reply) -> bool:
    """Whether an exact part begins the plain rationale, and is all of it where nobody cut it."""
    if mine.ended in WHOLE:
        return mine.exact == plain.exact
    return mine.exact == plain.exact[: len(mine.exact)]


def key_of(row: Mapping[str, Any]) -> Key:
    """The contender of a row."""
    return row["method"], row["bound"], row["unchanged"] or 0, row["confidence"] or 0.0
