"""Records as the rows of a document: a contender each, against plain whole rationales."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode_bench.measure.fastcot.contenders import COT, INEXACT, KINDS
from leapdecode_bench.measure.fastcot.records import BatchRecord, ContenderKey, Reply
from leapdecode_bench.measure.intervals import mean_interval, median_interval

WHOLE = ("stop", "length")  # how an uncut rationale ends
By = Mapping[int, BatchRecord]


def rows(records: Sequence[BatchRecord], keys: Sequence[ContenderKey]) -> list[dict[str, Any]]:
    """A row per contender that has records, see `row`."""
    by_key = {
        key: {record.batch: record for record in records if record.contender == key} for key in keys
    }
    plain, inexact = (by_key.get((name, None, 0, 0.0), {}) for name in (COT, INEXACT))
    return [
        row(key, of_contender, plain, inexact)
        for key, of_contender in by_key.items()
        if of_contender
    ]


def row(key: ContenderKey, records: By, plain: By, inexact: By) -> dict[str, Any]:
    """The figures of one contender.

    `saved_time` is the median, over batches, of the share of plain whole rationales' time that it
    saved, `saved_of_totals` that share of all batches' time (the paper's time ratio),
    `saved_seconds` those seconds, `saved_over_fastest` the share of the time of `plain` or
    `inexact`, whichever is faster. `loss` is the mean, over questions, of plain scores less its
    own, a share as accuracy is. Median and mean have 95% intervals.

    `iterations` are all forwards that gave tokens, the answers' included, `iterations_saved` the
    tokens less them (the paper's IS, beside TI). `rationale_equal`: whether every exact part is
    what the plain rationale begins with, and all of it where nothing was cut; None where it was
    decoded without exactness. `padded_rows` is the share of the target's rows that only bring the
    texts of a batch to one width (the paper's Type 2 padding).
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
    plain_seconds = sum(plain[batch].seconds for batch in both)
    saved_seconds = plain_seconds - sum(records[batch].seconds for batch in both)
    compared = pairs and KINDS[name.partition(":")[0]].exact
    rows = sum(record.rows for record in records.values())
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
        "saved_seconds": saved_seconds if both else None,
        "saved_of_totals": saved_seconds / plain_seconds if both else None,
        "saved_over_fastest": saved_over_fastest(records, plain, inexact),
        "iterations": iterations,
        "iterations_saved": tokens - iterations,
        "tokens": tokens,
        "approximate": sum(reply.approximate for reply in replies),
        "ended": {
            ending: [reply.ended for reply in replies].count(ending) for ending in endings(replies)
        },
        "time_composition": composition(records),
        "rationale_equal": all(is_beginning(*pair) for pair in pairs) if compared else None,
        "padded_rows": sum(record.padded for record in records.values()) / rows if rows else 0.0,
    }


def saved_over_fastest(records: By, plain: By, inexact: By) -> float | None:
    """The share of the faster plain decoding's time that was saved, over the batches of all; None
    where no batch was answered by both.
    """
    decodings = [decoding for decoding in (plain, inexact) if decoding]
    common = set(records).intersection(*decodings)
    if not common or not decodings:
        return None
    fastest = min(sum(decoding[batch].seconds for batch in common) for decoding in decodings)
    return 1 - sum(records[batch].seconds for batch in common) / fastest


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
