"""Paired figures of a bench's records: every contender against the faster plain decoding of the
same unit in the same round, and against the best peer.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode_bench.measure.cells import NONE, compact, identical, shown
from leapdecode_bench.measure.intervals import mean_interval, median_interval
from leapdecode_bench.measure.loops import LOOPING
from leapdecode_bench.measure.records import BASELINE, Record
from leapdecode_bench.measure.summary import hits, rate

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
    a peer on the same weights), see `over`.
    """
    turns: Turns = {}
    for record in records:
        turn = record.task, record.unit, record.round
        turns.setdefault(turn, {})[record.contender] = record
    kinds = list(dict.fromkeys(record.task for record in records))
    whole = {turn: found for turn, found in turns.items() if turn[0] not in apart}
    groups = {
        kind: {turn: found for turn, found in turns.items() if turn[0] == kind} for kind in kinds
    }
    if whole:
        groups[OVERALL] = whole
    return [row for kind, group in groups.items() for row in _rows(kind, group, contenders)]


def _rows(kind: str, turns: Turns, contenders: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    plain = {turn: fastest(list(found.values())) for turn, found in turns.items()}
    peer = best_peer(turns, contenders)
    rows = []
    for label in (one["label"] for one in contenders):
        own = {turn: found[label] for turn, found in turns.items() if label in found}
        calm = {turn: one for turn, one in own.items() if one.repeated <= LOOPING}
        counted, verdicts = list(own.values()), [one.verdicts for one in own.values()]
        rows.append(
            {
                "kind": kind,
                "method": label,
                "units": len({turn[:2] for turn in own}),
                **hits(counted),
                "over_plain": over(own, plain),
                "over_plain_not_looping": over(calm, plain),
                "best_peer": peer,
                "over_peer": over(own, {turn: found[peer] for turn, found in turns.items()})
                if peer
                else None,
                "identical": sum(found[0] for found in verdicts),
                "tie_explained": sum(found[1] for found in verdicts),
                "unexplained": sum(found[2] for found in verdicts),
            }
        )
    return rows


def fastest(found: Sequence[Record]) -> Record:
    """The plain decoding of a round with the most tokens a second."""
    plain = [one for one in found if one.contender in PLAIN]
    return max(plain, key=lambda one: rate(one.tokens, one.seconds))


def best_peer(turns: Turns, contenders: Sequence[Mapping[str, Any]]) -> str | None:
    """The peer on the same weights with the most tokens a second over all of the turns."""
    labels = [one["label"] for one in contenders if one["peer"] and one["same_weights"]]

    def pace(label: str) -> float:
        own = [found[label] for found in turns.values()]
        return rate(sum(one.tokens for one in own), sum(one.seconds for one in own))

    return max(labels, key=pace, default=None)


def over(own: Mapping[Turn, Record], other: Mapping[Turn, Record]) -> dict[str, Any] | None:
    """How many times as many tokens a second; None where there is nothing to compare.

    A unit's ratio is the median over its rounds. `mean` and `median` are over units, with 95%
    intervals; `total` is the ratio of all tokens by all seconds.
    """
    if not own:
        return None
    ratios: dict[tuple[str, int], list[float]] = {}
    for turn, record in own.items():
        ratio = rate(record.tokens, record.seconds) / rate(other[turn].tokens, other[turn].seconds)
        ratios.setdefault(turn[:2], []).append(ratio)
    units = [statistics.median(found) for found in ratios.values()]
    mean, *mean_ends = mean_interval(units)
    median, *median_ends = median_interval(units)
    paces = [
        rate(sum(one.tokens for one in side), sum(one.seconds for one in side))
        for side in (list(own.values()), [other[turn] for turn in own])
    ]
    return {
        "mean": mean, "mean_interval": mean_ends, "median": median,
        "median_interval": median_ends, "total": paces[0] / paces[1], "units": len(units),
    }  # fmt: skip


def cells(row: Mapping[str, Any]) -> list[str]:
    """A row under `HEAD`."""
    plain, calm, peer = row["over_plain"], row["over_plain_not_looping"], row["over_peer"]
    return [
        row["kind"],
        row["method"],
        shown(row["tokens_per_forward"]),
        compact(row["rows_per_forward"]),
        ratio(plain, "mean"),
        ratio(plain, "median"),
        shown(plain["total"], "{:.2f}x"),
        f"{shown(calm['mean'], '{:.2f}x')} of {calm['units']}" if calm else NONE,
        ratio(peer, "mean"),
        row["best_peer"] or NONE,
        identical(dict(row)),
    ]


def ratio(found: Mapping[str, Any] | None, name: str) -> str:
    """A ratio with its interval."""
    if found is None:
        return NONE
    low, high = found[f"{name}_interval"]
    return f"{found[name]:.2f}x" + (f" {low:.2f}-{high:.2f}" if low < high else "")
