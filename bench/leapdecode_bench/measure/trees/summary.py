"""Records as the rows of a document: a strategy each, against serial execution."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode_bench.measure.intervals import median_interval
from leapdecode_bench.measure.trees.compare import COT
from leapdecode_bench.measure.trees.records import Part, TreeRecord
from leapdecode_bench.measure.trees.simulation import same_shape, simulate

SERIAL, DRAFTED = "serial", "serial-speculative"
PARTS = ("thought", "evaluation", "answer")
By = Mapping[int, TreeRecord]


def rows(records: Sequence[TreeRecord], strategies: Sequence[str]) -> list[dict[str, Any]]:
    """A row per strategy that has records, see `row`."""
    by_strategy = {
        name: {one.question: one for one in records if one.strategy == name} for name in strategies
    }
    return [
        row(name, found, by_strategy.get(SERIAL, {}))
        for name, found in by_strategy.items()
        if found
    ]


def row(name: str, own: By, serial: By) -> dict[str, Any]:
    """The figures of one strategy.

    `speedup` is the median, over questions, of the ratio of tokens per second to serial's, with its
    95% interval. Shares and means are over all questions.
    """
    found = list(own.values())
    seconds, tokens = total(found, "seconds"), total(found, "tokens")
    scores = [one.score for one in found if one.score is not None]
    both = sorted(set(own) & set(serial))
    ratios = [rate(own[number]) / rate(serial[number]) for number in both]
    median, low, high = median_interval(ratios) if ratios else (None, None, None)
    equal = all(own[number].digest == serial[number].digest for number in both)
    parts = {part: added([one.parts[part] for one in found]) for part in PARTS}
    steps = sum(part.steps for part in parts.values())
    traces = [one.utilisation for one in found]
    return {
        "strategy": name,
        "questions": len(found),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "speedup": median,
        "speedup_interval": [low, high],
        "tokens_per_forward": tokens / steps if steps else None,
        "acceptance": {part: parts[part].acceptance for part in PARTS},
        "queue_wait": total(found, "queue_wait") / len(found),
        "target_idle": 1 - total(found, "target_busy") / seconds,
        "draft_busy": total(found, "draft_busy") / seconds,
        "utilisation": [statistics.mean(shares) for shares in zip(*traces, strict=True)],
        "peak_memory": max(one.peak_memory for one in found),
        "score": statistics.mean(scores) if scores else None,
        "texts_equal_to_serial": equal if both and name != COT else None,
        "prompt_tokens": total(found, "prompt_tokens"),
        "computed_tokens": total(found, "computed_tokens"),
        "distinct_tokens": total(found, "distinct_tokens"),
        "counts": {key: sum(one.counts[key] for one in found) for key in found[0].counts},
    }


def total(records: Sequence[TreeRecord], name: str) -> Any:
    """The sum of a field over records."""
    return sum(getattr(record, name) for record in records)


def rate(record: TreeRecord) -> float:
    """Tokens a second."""
    return record.tokens / record.seconds


def added(parts: Sequence[Part]) -> Part:
    """The parts of all questions together."""
    return Part(*(sum(vars(part)[name] for part in parts) for name in vars(Part())))


def simulation(records: Sequence[TreeRecord], drafts: int) -> dict[str, Any] | None:
    """Algorithm 1 with `drafts` draft models on devices of their own, by what was measured here.

    Of the questions whose trees have the same shape under serial and serial-speculative execution,
    and whose draft levels are known; None without any.
    """
    serial = {one.question: one for one in records if one.strategy == SERIAL}
    drafted = [one for one in records if one.strategy == DRAFTED and one.question in serial]
    found = [one for one in drafted if levels(one) and same_shape(one, serial[one.question])]
    if not found:
        return None
    seconds = {"serial": 0.0, "serial-speculative": 0.0, "scheduled": 0.0}
    idle = dict.fromkeys(seconds, 0.0)
    for one in found:
        plain = serial[one.question]
        for name, simulated in simulate(one, plain, drafts, levels(one)).items():
            seconds[name] += simulated.seconds
            idle[name] += simulated.target_idle * simulated.seconds
    return {
        "drafts": drafts,
        "rows": [
            {
                "strategy": name,
                "seconds": took,
                "speedup": seconds["serial"] / took,
                "target_idle": idle[name] / took,
            }
            for name, took in seconds.items()
        ],
    }


def levels(record: TreeRecord) -> float:
    """Draft forwards before each verification, in the mean."""
    part = added(list(record.parts.values()))
    return part.drafted / part.steps if part.steps else 0.0
