"""The row-cost curve: what a forward of 1, 2, 4, ... rows costs on this machine, measured once and kept on disk."""

import bisect
import contextlib
import hashlib
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from leapdecode.core import Forward, SamplingParams, Sequence, TokenTree
from leapdecode.model.runner import Runner

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXTS = (64, 512)
ROUNDED = 32  # tokens


@dataclass(frozen=True)
class RowCost:
    """Milliseconds of a forward of `rows` per sequence behind `context` cached tokens.

    `milliseconds` is the median, `ratio` that against the median of one row, `fastest` the smallest.
    """

    context: int
    rows: int
    milliseconds: float
    ratio: float
    fastest: float


def _synchronise(runner: Runner) -> None:
    if runner.device.type == "cuda":
        torch.cuda.synchronize(runner.device)


def _times(runner: Runner, context: int, counts: list[int], repeats: int, batch: int) -> dict[int, list[float]]:
    """Seconds per row count, the counts taken in turn so that a busy moment hits all of them."""
    endless = SamplingParams(max_tokens=1 << 20)
    probe = random.Random(0).choices(range(runner.vocabulary), k=context + max(counts))  # experts differ by token
    texts = [Sequence(probe[:context], endless, max_length=runner.max_length) for _ in range(batch)]
    lines = runner.open(batch, context + max(counts))
    for text in texts:
        lines.join(text)
    lines.forward([Forward("target", text, _chain(probe[context - 1 : context])) for text in texts])
    taken: dict[int, list[float]] = {rows: [] for rows in counts}
    for repeat in range(repeats + 1):
        for rows in counts:
            asked = [Forward("target", text, _chain(probe[context - 1 :][:rows])) for text in texts]
            _synchronise(runner)
            began = time.perf_counter()
            for raw in lines.forward(asked):
                raw.logits_NV.argmax(-1).tolist()  # a step chooses at every row
            if repeat:  # the first round warms up
                taken[rows].append(time.perf_counter() - began)
    lines.close()
    return taken


def _chain(tokens: list[int]) -> TokenTree:
    tree = TokenTree(tokens[0])
    tree.add_chain(0, tokens[1:], "probe")
    return tree


def measure_row_costs(
    runner: Runner, repeats: int = 9, tick: Callable[[], Any] = lambda: None, batch: int = 1
) -> list[RowCost]:
    """The curve at two context lengths (fewer rows or contexts where the model's own is short)."""
    found = []
    for context in CONTEXTS if runner.max_length > CONTEXTS[0] + 1 else (runner.max_length // 2,):
        counts = [rows for rows in ROWS if context + rows <= runner.max_length]
        if len(counts) < 2:
            continue
        taken = _times(runner, context, counts, repeats, batch)
        medians = {rows: statistics.median(values) * 1e3 for rows, values in taken.items()}
        found += [
            RowCost(context, rows, value, value / medians[1], min(taken[rows]) * 1e3) for rows, value in medians.items()
        ]
        tick()
    return found


class CostCurve:
    """Milliseconds of a step by rows and cached tokens: straight lines between what was measured.

    It goes by the fastest forwards, which a busy machine disturbs least, and never falls with more rows.
    """

    def __init__(self, costs: list[RowCost]) -> None:
        self.contexts = sorted({cost.context for cost in costs})
        self.lines = [self._line([cost for cost in costs if cost.context == context]) for context in self.contexts]
        self.known: dict[tuple[int, int], float] = {}

    @staticmethod
    def _line(costs: list[RowCost]) -> list[tuple[int, float]]:
        ordered = sorted(costs, key=lambda cost: cost.rows)
        return [(c.rows, min(other.fastest for other in ordered[place:])) for place, c in enumerate(ordered)]

    def __call__(self, rows: int, context: int) -> float:
        """Beyond the measured rows the last line goes on; beyond the measured contexts the nearest one counts.

        `context` is rounded down to a multiple of `ROUNDED`: a budget asks for dozens of row counts in every step.
        """
        key = rows, context // ROUNDED
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._between(rows, key[1] * ROUNDED)
        return found

    def _between(self, rows: int, context: int) -> float:
        place = bisect.bisect_left(self.contexts, context)
        if place in (0, len(self.contexts)):
            return self._at(min(place, len(self.contexts) - 1), rows)
        low, high = self.contexts[place - 1], self.contexts[place]
        share = (context - low) / (high - low)
        return (1 - share) * self._at(place - 1, rows) + share * self._at(place, rows)

    def _at(self, line: int, rows: int) -> float:
        points = self.lines[line]
        if len(points) < 2:
            return points[0][1]
        end = min(max(bisect.bisect_left(points, (rows, 0.0)), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[end - 1], points[end]
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)


def cache_file() -> Path:
    """Where measured curves are kept: the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "leapdecode" / "row_costs.json"


def device_name(device: torch.device) -> str:
    """What the maker calls the device."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def curve_key(runner: Runner, batch: int) -> str:
    """What a curve depends on: the model's shape, dtype, attention, device, threads, versions, batch."""
    config = json.dumps(runner.config.to_dict(), sort_keys=True, default=str)
    shape = hashlib.sha256(config.encode()).hexdigest()[:12]
    attention = runner.model.config._attn_implementation
    device = f"{runner.device.type} {device_name(runner.device)}"
    parts = (type(runner.model).__name__, shape, runner.dtype, attention, device)
    how = ("compiled",) if runner.compiled and batch == 1 else ()
    return " | ".join(map(str, (*parts, torch.get_num_threads(), torch.__version__, f"batch {batch}", *how)))


def row_costs(runner: Runner, batch: int = 1, repeats: int = 5, path: Path | None = None) -> list[RowCost]:
    """The model's curve on this machine, from disk or measured now and kept; a folder that refuses costs only time."""
    path, key = path or cache_file(), curve_key(runner, batch)
    known = _kept(path).get(key)
    if isinstance(known, dict):
        return [RowCost(**cost) for cost in known["costs"]]
    costs = measure_row_costs(runner, repeats, batch=batch)
    keep_costs(costs, key, path)
    return costs


def measured_on(runner: Runner, batch: int = 1, path: Path | None = None) -> str | None:
    """The day (ISO 8601) on which the kept curve was measured; None where none is kept."""
    known = _kept(path or cache_file()).get(curve_key(runner, batch))
    return str(known["measured"]) if isinstance(known, dict) else None


def _kept(path: Path) -> dict[str, Any]:
    """The file's curves by key, none where it cannot be read."""
    with contextlib.suppress(OSError, json.JSONDecodeError):
        known = json.loads(path.read_text())
        return known if isinstance(known, dict) else {}
    return {}


def keep_costs(costs: list[RowCost], key: str, path: Path | None = None) -> None:
    """Enter a curve into the file on disk, beside those of others."""
    path = path or cache_file()
    made = {"measured": time.strftime("%Y-%m-%d"), "costs": [asdict(cost) for cost in costs]}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(_kept(path) | {key: made}, indent=1))
        beside.replace(path)
