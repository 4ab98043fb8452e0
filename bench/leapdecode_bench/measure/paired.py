"""Paired figures of a bench's records: every contender against the faster plain decoding of the
same unit in the same round, and against the best peer.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode_bench.measure.cells import NONE, compact, identical, ratio, shown
from leapdecode_bench.measure.intervals import mean_interval, median_interval
from leapdecode_bench.measure.records import BASELINE, LOOPING, Record
from leapdecode_bench.measure.summary import forward_counts, pace

# each is plain decoding; a unit's reference is the fastest of those that are in its round
PLAIN = (BASELINE, f"{BASELINE}:exact=False", "hf-plain", "hf-float32")
OVERALL = "all kinds"
HEAD = (
    "kind",
    "method",
    "tokens/\nforward",
    "rows/\nforward",
    "over plain:\nmean",
    "median",
    "total",
    "not\nlooping",
    "over best\npeer: mean",
    "best peer",
    "identical",
)
Turn = tuple[str, int, int]  # task, unit, round
Turns = dict[Turn, dict[str, Record]]


def paired(
    records: Sequence[Record], contenders: Sequence[Mapping[str, Any]], apart: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """A row per kind and contender, then those over all kinds but the ones set `apart`.

    `contenders` are those of `run.json`. Each row has `over_plain` and `over_peer` (None without
    a peer on the same weights), see `ratios_over`.
    """
    turns: Turns = {}
    for record in records:
        turn = record.task, record.unit, record.round
        turns.setdefault(turn, {})[record.contender] = record
    kinds = list(dict.fromkeys(record.task for record in records))
    whole = {turn: by_contender for turn, by_contender in turns.items() if turn[0] not in apart}
    groups = {
        kind: {turn: by_contender for turn, by_contender in turns.items() if turn[0] == kind}
        for kind in kinds
    }
    if whole:
        groups[OVERALL] = whole
    return [row for kind, group in groups.items() for row in _rows(kind, group, contenders)]


def _rows(kind: str, turns: Turns, contenders: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    plain = {turn: fastest(list(by_contender.values())) for turn, by_contender in turns.items()}
    peer = best_peer(turns, contenders)
    rows = []
    for label in (record["label"] for record in contenders):
        records = {
            turn: by_contender[label]
            for turn, by_contender in turns.items()
            if label in by_contender
        }
        not_looping = {
            turn: record for turn, record in records.items() if record.repeated <= LOOPING
        }
        counted = list(records.values())
        verdicts = [record.verdicts for record in records.values()]
        rows.append(
            {
                "kind": kind,
                "method": label,
                "units": len({turn[:2] for turn in records}),
                **forward_counts(counted),
                "over_plain": ratios_over(records, plain),
                "over_plain_not_looping": ratios_over(not_looping, plain),
                "best_peer": peer,
                "over_peer": ratios_over(
                    records, {turn: by_contender[peer] for turn, by_contender in turns.items()}
                )
                if peer
                else None,
                "identical": sum(by_contender[0] for by_contender in verdicts),
                "tie_explained": sum(by_contender[1] for by_contender in verdicts),
                "unexplained": sum(by_contender[2] for by_contender in verdicts),
            }
        )
    return rows


def fastest(records: Sequence[Record]) -> Record:
    """The plain decoding of a round with the most tokens a second."""
    plain = [record for record in records if record.contender in PLAIN]
    return max(plain, key=pace)


def best_peer(turns: Turns, contenders: Sequence[Mapping[str, Any]]) -> str | None:
    """The peer on the same weights with the most tokens a second over all of the turns."""
    labels = [
        contender["label"]
        for contender in contenders
        if contender["peer"] and contender["same_weights"]
    ]
    paces = {
        label: pace(*(by_contender[label] for by_contender in turns.values())) for label in labels
    }
    return max(labels, key=paces.__getitem__, default=None)


def ratios_over(
    records: Mapping[Turn, Record], references: Mapping[Turn, Record]
) -> dict[str, Any] | None:
    """How many times as many tokens a second; None where there is nothing to compare.

    A unit's ratio is the median over its rounds. `mean` and `median` are over units, with 95%
    intervals; `total` is the ratio of all tokens by all seconds.
    """
    if not records:
        return None
    ratios: dict[tuple[str, int], list[float]] = {}
    for turn, record in records.items():
        ratios.setdefault(turn[:2], []).append(pace(record) / pace(references[turn]))
    units = [statistics.median(values) for values in ratios.values()]
    mean, *mean_ends = mean_interval(units)
    median, *median_ends = median_interval(units)
    total = pace(*records.values()) / pace(*(references[turn] for turn in records))
    return {
        "mean": mean, "mean_interval": mean_ends, "median": median,
        "median_interval": median_ends, "total": total, "units": len(units),
    }  # fmt: skip


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row under `HEAD`."""
    plain, calm, peer = row["over_plain"], row["over_plain_not_looping"], row["over_peer"]
    return [
        row["kind"],
        row["method"],
        shown(row["tokens_per_forward"]),
        compact(row["rows_per_forward"]),
        interval(plain, "mean"),
        interval(plain, "median"),
        shown(plain["total"], "{:.2f}x"),
        f"{shown(calm['mean'], '{:.2f}x')} of {calm['units']}" if calm else NONE,
        interval(peer, "mean"),
        row["best_peer"] or NONE,
        identical(row),
    ]


def interval(figures: Mapping[str, Any] | None, name: str) -> str:
    """A ratio of `ratios_over` with its interval."""
    return NONE if figures is None else ratio(figures[name], figures[f"{name}_interval"])
