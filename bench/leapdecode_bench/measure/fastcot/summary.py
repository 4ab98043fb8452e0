"""Records as the rows of a document: a contender each, against plain whole rationales."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode_bench.measure.fastcot.contenders import COT
from leapdecode_bench.measure.fastcot.records import BatchRecord, ContenderKey, Reply
from leapdecode_bench.measure.intervals import mean_interval, median_interval

WHOLE = ("stop", "length")  # how an uncut rationale ends
By = Mapping[int, BatchRecord]


def rows(records: Sequence[BatchRecord], keys: Sequence[ContenderKey]) -> list[dict[str, Any]]:
    """A row per contender that has records, see `row`."""
    by_key = {
        key: {record.batch: record for record in records if record.contender == key} for key in keys
    }
    plain = by_key.get((COT, None, 0, 0.0), {})
    return [row(key, of_contender, plain) for key, of_contender in by_key.items() if of_contender]


def row(key: ContenderKey, records: By, plain: By) -> dict[str, Any]:
    """The figures of one contender.

    `saved_time` is the median, over batches, of the share of plain whole rationales' time that it
    saved; `loss` the mean, over questions, of their scores less its own, a share as accuracy is.
    Both have 95% intervals. `iterations` are all forwards that gave tokens, the answers' included,
    `iterations_saved` the tokens less them (the paper's IS, beside TI). `rationale_equal`: whether
    every exact part is what the plain rationale begins with, and all of it where nothing was cut.
    """
    name, bound, unchanged, confidence = key
    replies = replies_of(records)
    both = sorted(set(records) & set(plain))
    saved = [1 - records[batch].seconds / plain[batch].seconds for batch in both]
    pairs = [
        (reply, plain_reply)
        for batch in both
        for reply, plain_reply in zip(records[batch].replies, plain[batch].replies, strict=True)
    ]
    tokens = sum(reply.tokens + reply.answer_tokens for reply in replies)
    iterations = sum(reply.iterations + reply.answer_iterations for reply in replies)
    loss = (
        mean_interval([plain_reply.score - reply.score for reply, plain_reply in pairs])
        if pairs
        else None
    )
    time = median_interval(saved) if saved else None
    return {
        "method": name,
        "bound": bound,
        "unchanged": unchanged or None,
        "confidence": confidence or None,
        "questions": len(replies),
        "batches": len(records),
        "accuracy": statistics.mean(reply.score for reply in replies),
        "loss": loss and loss[0],
        "loss_interval": loss and list(loss[1:]),
        "seconds": sum(reply.seconds for reply in records.values()),
        "saved_time": time and time[0],
        "saved_time_interval": time and list(time[1:]),
        "iterations": iterations,
        "iterations_saved": tokens - iterations,
        "tokens": tokens,
        "approximate": sum(reply.approximate for reply in replies),
        "ended": {
            ending: [reply.ended for reply in replies].count(ending) for ending in endings(replies)
        },
        "time_composition": composition(records),
        "rationale_equal": all(is_beginning(*pair) for pair in pairs) if pairs else None,
    }


def replies_of(records: By) -> list[Reply]:
    """All answers."""
    return [reply for record in records.values() for reply in record.replies]


def endings(replies: Sequence[Reply]) -> list[str]:
    """How rationales ended, in alphabetical order."""
    return sorted({reply.ended for reply in replies})


def composition(records: By) -> dict[str, float]:
    """Seconds by part, over all batches."""
    parts = next(iter(records.values())).times
    return {part: sum(record.times[part] for record in records.values()) for part in parts}


def is_beginning(reply: Reply, plain: Reply) -> bool:
    """Whether an exact part is a prefix of the plain rationale; equal to it where it is uncut."""
    if reply.ended in WHOLE:
        return reply.exact == plain.exact
    return reply.exact == plain.exact[: len(reply.exact)]


def key_of(row: Mapping[str, Any]) -> ContenderKey:
    """The contender of a row."""
    return row["method"], row["bound"], row["unchanged"] or 0, row["confidence"] or 0.0
