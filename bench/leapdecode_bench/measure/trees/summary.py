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


def rows(
    records: Sequence[TreeRecord], strategies: Sequence[str], seeded: bool = True
) -> list[dict[str, Any]]:
    """A row per strategy that has records, see `row`; `seeded` texts are to equal serial's."""
    by_strategy = {
        name: {record.question: record for record in records if record.strategy == name}
        for name in strategies
    }
    return [
        row(name, by_question, by_strategy.get(SERIAL, {}), seeded)
        for name, by_question in by_strategy.items()
        if by_question
    ]


def row(name: str, records: By, serial_records: By, seeded: bool = True) -> dict[str, Any]:
    """The figures of one strategy.

    `speedup` is the median, over questions, of the ratio of tokens per second to serial's, with its
    95% interval; `part_speedup` is the ratio of their tokens per second over all questions, of each
    part's own seconds. Shares and means are over all questions.
    """
    all_records = list(records.values())
    seconds = total(all_records, "seconds")
    tokens = total(all_records, "tokens")
    scores = [record.score for record in all_records if record.score is not None]
    both = sorted(set(records) & set(serial_records))
    ratios = [rate(records[number]) / rate(serial_records[number]) for number in both]
    median, low, high = median_interval(ratios) if ratios else (None, None, None)
    equal = all(records[number].digest == serial_records[number].digest for number in both)
    parts = parts_of(all_records)
    serial_parts = parts_of([serial_records[number] for number in both])
    shared_parts = parts_of([records[number] for number in both])
    steps = sum(part.steps for part in parts.values())
    traces = [record.utilisation for record in all_records]
    return {
        "strategy": name,
        "questions": len(all_records),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "speedup": median,
        "speedup_interval": [low, high],
        "tokens_per_forward": tokens / steps if steps else None,
        "acceptance": {part: parts[part].acceptance for part in PARTS},
        "acceptance_of_all": added(list(parts.values())).acceptance,
        "part_seconds": {part: parts[part].seconds for part in PARTS},
        "part_speedup": {
            part: part_speedup(shared_parts[part], serial_parts[part]) for part in PARTS
        },
        "queue_wait": total(all_records, "queue_wait") / len(all_records),
        "target_idle": 1 - total(all_records, "target_busy") / seconds,
        "draft_busy": total(all_records, "draft_busy") / seconds,
        "utilisation": [statistics.mean(shares) for shares in zip(*traces, strict=True)],
        "peak_memory": max(record.peak_memory for record in all_records),
        "score": statistics.mean(scores) if scores else None,
        "texts_equal_to_serial": equal if both and seeded and name != COT else None,
        "prompt_tokens": total(all_records, "prompt_tokens"),
        "computed_tokens": total(all_records, "computed_tokens"),
        "distinct_tokens": total(all_records, "distinct_tokens"),
        "counts": {
            key: sum(record.counts[key] for record in all_records) for key in all_records[0].counts
        },
    }


def parts_of(records: Sequence[TreeRecord]) -> dict[str, Part]:
    """Thoughts, evaluations and answers of all questions together."""
    return {part: added([record.parts[part] for record in records]) for part in PARTS}


def part_speedup(part: Part, serial: Part) -> float | None:
    """The ratio of tokens a second to serial execution's; None where a part has no text."""
    if not (part.seconds and serial.tokens and serial.seconds):
        return None
    return part.tokens / part.seconds / (serial.tokens / serial.seconds)


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
    serial = {record.question: record for record in records if record.strategy == SERIAL}
    drafted = [
        record for record in records if record.strategy == DRAFTED and record.question in serial
    ]
    simulated_records = [
        record
        for record in drafted
        if levels(record) and same_shape(record, serial[record.question])
    ]
    if not simulated_records:
        return None
    seconds = {"serial": 0.0, "serial-speculative": 0.0, "scheduled": 0.0}
    idle = dict.fromkeys(seconds, 0.0)
    for record in simulated_records:
        plain = serial[record.question]
        for name, simulated in simulate(record, plain, drafts, levels(record)).items():
            seconds[name] += simulated.seconds
            idle[name] += simulated.target_idle * simulated.seconds
    return {
        "drafts": drafts,
        "rows": [
            {
                "strategy": name,
                "seconds": seconds_taken,
                "speedup": seconds["serial"] / seconds_taken,
                "target_idle": idle[name] / seconds_taken,
            }
            for name, seconds_taken in seconds.items()
        ],
    }


def levels(record: TreeRecord) -> float:
    """Draft forwards before each verification, in the mean."""
    part = added(list(record.parts.values()))
    return part.drafted / part.steps if part.steps else 0.0
