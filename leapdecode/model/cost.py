"""The row-cost curve: what a forward of 1, 2, 4, ... rows costs on this machine, measured when
somebody asks for it (`leapdecode doctor`, `bench`) and kept on disk.

Decoding itself learns what rows cost, see `row_times`, and begins with a kept curve.
"""

import bisect
import logging
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from leapdecode.core import Forward, SamplingParams, TokenTree
from leapdecode.core import Sequence as Text
from leapdecode.model.facts import keep, kept
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.runner import Runner
from leapdecode.model.traits import made_up_texts

LOG = logging.getLogger("leapdecode")
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
# Half weights: rows are multiplied six at a time, so that six take little more than one, and seven
# what twelve take.
STAIRCASE = (1, 3, 6, 8, 12, 16, 24, 48, 64, 128)
CONTEXTS = (64, 512)
WARM_UP = 3  # rounds before forwards are timed where they are recorded: launch, record, replay
SECONDS = 4.0  # that repeats may take at a context, where nobody asked for a curve
STEEP = 8.0  # times one row's: forwards that no planner would choose


@dataclass(frozen=True)
class RowCost:
    """Milliseconds of a forward of `rows` per sequence behind `context` cached tokens.

    `milliseconds` is the median, `ratio` that against the median of one row, `fastest` the
    smallest.
    """

    context: int
    rows: int
    milliseconds: float
    ratio: float
    fastest: float


def _synchronise(runner: Runner) -> None:
    if runner.device.type == "cuda":
        torch.cuda.synchronize(runner.device)


def _times(
    runner: Runner,
    context: int,
    counts: list[int],
    repeats: int,
    batch: int,
    seconds: float | None = None,
) -> dict[int, list[float]]:
    """Seconds per row count.

    The counts take turns, so that a busy moment hits all of them, and in random order: a forward
    that follows the largest is slower.
    """
    endless = SamplingParams(max_tokens=1 << 20)
    # experts differ by token
    (probe,) = made_up_texts(runner.vocabulary, context + max(counts))
    texts = [Text(probe[:context], endless, max_length=runner.max_length) for _ in range(batch)]
    kept_before = runner.kept_bytes
    cache = KVCache(runner, batch, context + max(counts))
    with runner.turn:
        for text in texts:
            cache.allocate(text)
        forwards = [Forward("target", text, _chain(probe[context - 1 : context])) for text in texts]
        cache.forward(forwards)

    def timed(rows: int) -> float:
        forwards = [Forward("target", text, _chain(probe[context - 1 :][:rows])) for text in texts]
        with runner.turn:
            _synchronise(runner)
            began = time.perf_counter()
            for raw in cache.forward(forwards):
                raw.logits_NV.max(-1).indices.tolist()  # a step chooses at every row
            return time.perf_counter() - began

    # the first rounds warm up, and the last of them shows what there is time for
    for _ in range(WARM_UP if runner.backend.recorded else 1):
        first = {rows: timed(rows) for rows in counts}
    if seconds is not None:
        counts = _worth_timing(first)
        repeats = max(min(repeats, int(seconds / sum(first[rows] for rows in counts))), 1)
        counts, repeats = runner.ranks.agreed((counts, repeats))
    seconds_by_rows: dict[int, list[float]] = {rows: [] for rows in counts}
    source = random.Random(0)
    for _ in range(repeats):
        for rows in source.sample(counts, len(counts)):
            seconds_by_rows[rows].append(timed(rows))
    cache.close()
    runner.shrink(kept_before)  # more is in nobody's account
    return runner.ranks.agreed(seconds_by_rows)


def _worth_timing(first: dict[int, float]) -> list[int]:
    """Row counts up to the first at which a forward takes more than `STEEP` times the fastest."""
    counts = sorted(first)
    steep = [rows for rows in counts if first[rows] > STEEP * min(first.values())]
    return [rows for rows in counts if not steep or rows <= max(steep[0], counts[1])]


def _chain(tokens: list[int]) -> TokenTree:
    tree = TokenTree(tokens[0])
    tree.add_chain(0, tokens[1:], "probe")
    return tree


def measure_row_costs(
    runner: Runner,
    repeats: int = 9,
    tick: Callable[[], Any] = lambda: None,
    batch: int = 1,
    seconds: float | None = None,
    contexts: tuple[int, ...] = CONTEXTS,
    most: int = ROWS[-1],
) -> list[RowCost]:
    """The curve of up to `most` rows at some context lengths (fewer where the model's own is
    short).

    With `seconds`, fewer repeats where so many would take longer than that at a context, and no
    numbers of rows whose forwards take many times one row's.
    """
    costs = []
    for context in contexts if runner.max_length > contexts[0] + 1 else (runner.max_length // 2,):
        counts = [
            rows for rows in rows_of(runner) if rows <= most and context + rows <= runner.max_length
        ]
        if len(counts) < 2:
            continue
        seconds_by_rows = _times(runner, context, counts, repeats, batch, seconds)
        medians = {
            rows: statistics.median(values) * 1e3 for rows, values in seconds_by_rows.items()
        }
        costs += [
            RowCost(context, rows, value, value / medians[1], min(seconds_by_rows[rows]) * 1e3)
            for rows, value in medians.items()
        ]
        tick()
    return costs


def rows_of(runner: Runner) -> tuple[int, ...]:
    """Numbers of rows between which a forward's times are about straight lines."""
    return STAIRCASE if runner.half else ROWS


def curve_key(runner: Runner, batch: int) -> str:
    """What a curve depends on: the model's key, the batch, and whether forwards are compiled."""
    grain = batch > 1 and runner.exact is not None and runner.exact.grain
    features = [
        name
        for name, on in (
            ("compiled", runner.compiled and batch == 1),
            ("recorded", runner.backend.recorded),
            ("exact", runner.exact),
            (f"grain {grain}", grain),
        )
        if on
    ]
    return " | ".join((runner.key, f"batch {batch}", *features))


def row_costs(
    runner: Runner, batch: int = 1, repeats: int = 5, path: Path | None = None
) -> list[RowCost]:
    """The model's curve on this machine, kept or measured now."""
    key = curve_key(runner, batch)
    costs = runner.ranks.agreed(_curve(kept(key, path)))
    if costs is None:
        what = "what forwards of 1 to 128 tokens take here"
        LOG.info("measuring %s: once per model and machine, some 10 seconds", what)
        measured = measure_row_costs(runner, repeats, batch=batch, seconds=SECONDS)
        # another process may have been first
        costs = runner.ranks.agreed(_curve(kept(key, path)) or measured)
        keep_costs(costs, key, path)
    return costs


def measured_on(runner: Runner, batch: int = 1, path: Path | None = None) -> str | None:
    """The day (ISO 8601) on which the kept curve was measured; None where none is kept."""
    entry = kept(curve_key(runner, batch), path)
    return entry["measured"] if entry else None


def kept_costs(runner: Runner, batch: int = 1) -> list[RowCost] | None:
    """The curve that was measured on this machine before; None where none is kept."""
    return _curve(kept(curve_key(runner, batch)))


def keep_costs(costs: list[RowCost], key: str, path: Path | None = None) -> None:
    """Keep a curve, beside those of others."""
    keep(key, {"costs": [asdict(cost) for cost in costs]}, path)


def _curve(entry: dict[str, Any] | None) -> list[RowCost] | None:
    """The curve of an entry that `keep_costs` wrote."""
    return None if entry is None else [RowCost(**cost) for cost in entry["costs"]]


class CostCurve:
    """Milliseconds of a step by rows and cached tokens: straight lines between what was measured.

    It goes by the fastest forwards, which a busy machine disturbs least, and never falls with more
    rows.

    Args:
        costs: the measured points.
    """

    def __init__(self, costs: list[RowCost]) -> None:
        self.contexts = sorted({cost.context for cost in costs})
        self.lines = [
            self._line([cost for cost in costs if cost.context == context])
            for context in self.contexts
        ]

    @staticmethod
    def _line(costs: list[RowCost]) -> tuple[list[int], list[float]]:
        """Numbers of rows, and the milliseconds of each."""
        costs = sorted(costs, key=lambda cost: cost.rows)
        fastest = [cost.fastest for cost in costs]
        return [cost.rows for cost in costs], [min(fastest[place:]) for place in range(len(costs))]

    def __call__(self, rows: int, context: int) -> float:
        """Beyond the measured rows the last line goes on; beyond the measured contexts the nearest
        one counts.
        """
        context = min(max(context, self.contexts[0]), self.contexts[-1])
        return between(self.contexts, [between(*line, rows) for line in self.lines], context)


def between(places: Sequence[int], values: Sequence[float], place: int) -> float:
    """The value at `place` on straight lines through `values` at rising `places`; beyond these the
    first or the last line goes on.
    """
    if len(places) == 1:
        return values[0]
    number, share = segment(places, place)
    return values[number] + (values[number + 1] - values[number]) * share


def segment(places: Sequence[int], place: int) -> tuple[int, float]:
    """The last of rising `places` before `place` that another one follows, and how far `place` is
    from it to that: 0 to 1, more beyond the last.
    """
    number = min(max(bisect.bisect_right(places, place) - 1, 0), len(places) - 2)
    first = places[number]
    return number, (place - first) / (places[number + 1] - first)
