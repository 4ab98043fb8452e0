"""The row-cost curve: what a forward of 1, 2, 4, ... rows costs on this machine."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from leapdecode.core import Forward, SamplingParams, Sequence, TokenTree
from leapdecode.model.runner import Runner

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXTS = (64, 512)


@dataclass(frozen=True)
class RowCost:
    """Median milliseconds of a forward of `rows` behind `context` cached tokens, and the ratio to one row there."""

    context: int
    rows: int
    milliseconds: float
    ratio: float


def _synchronise(runner: Runner) -> None:
    if runner.device.type == "cuda":
        torch.cuda.synchronize(runner.device)


def _times(runner: Runner, context: int, counts: list[int], repeats: int) -> dict[int, list[float]]:
    """Seconds per row count, the counts taken in turn so that a busy moment hits all of them."""
    text = Sequence([1] * context, SamplingParams(max_tokens=1 << 20), max_length=runner.max_length)
    lines = runner.open(1, context + max(counts))
    lines.join(text)
    lines.forward([Forward("target", text, TokenTree(1))])
    taken: dict[int, list[float]] = {rows: [] for rows in counts}
    for repeat in range(repeats + 1):
        for rows in counts:
            tree = TokenTree(1)
            tree.add_chain(0, [1] * (rows - 1), "probe")
            _synchronise(runner)
            began = time.perf_counter()
            lines.forward([Forward("target", text, tree)])
            _synchronise(runner)
            if repeat:  # the first round warms up
                taken[rows].append(time.perf_counter() - began)
    lines.close()
    return taken


def measure_row_costs(runner: Runner, repeats: int = 9, tick: Callable[[], Any] = lambda: None) -> list[RowCost]:
    """The curve at two context lengths (fewer rows or contexts where the model's own is short)."""
    found = []
    for context in CONTEXTS:
        counts = [rows for rows in ROWS if context + rows <= runner.max_length]
        if not counts:
            continue
        medians = {rows: statistics.median(v) * 1e3 for rows, v in _times(runner, context, counts, repeats).items()}
        found += [RowCost(context, rows, value, value / medians[1]) for rows, value in medians.items()]
        tick()
    return found
