"""What a forward takes by its rows, as it is decoded here and by transformers' own code.

All ways take turns, so that a busy moment hits each of them.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers import DynamicCache

from leapdecode.model.cache_names import CACHE
from leapdecode.model.half_linear import half_linears, num_weights, weight_bytes
from leapdecode.model.half_weights import copied
from leapdecode.model.masks import RowPlan
from leapdecode.model.memory import within_share
from leapdecode.model.runner import Runner
from leapdecode.model.traits import made_up_texts

ROWS = (1, 2, 4, 6, 8, 12, 16)
TEXT = 64  # cached tokens
READ = 512 << 20  # bytes, far more than a processor's caches hold
SHARE = 0.6  # of the free memory, for a copy of the model
OURS = "leapdecode"
DTYPES = (torch.float32, torch.bfloat16)

Forward = Callable[[int], None]  # of so many rows behind a cached text


@dataclass(frozen=True)
class Way:
    """Medians of one way to compute.

    Attributes:
        name: "leapdecode", or transformers with its dtype.
        milliseconds: of forwards of as many rows as `ROWS` says.
        bytes: of the weights that a forward reads.
    """

    name: str
    milliseconds: list[float]
    bytes: int

    def share(self, bandwidth: float) -> float:
        """What a forward of one row reads a second, of `bandwidth` bytes a second."""
        return self.bytes / (self.milliseconds[0] / 1e3) / bandwidth


@dataclass(frozen=True)
class RowTable:
    """Medians by way, and the bytes a second that are read from memory in the same run."""

    ways: list[Way]
    bandwidth: float

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "rows": list(ROWS),
            "read_bandwidth": self.bandwidth,
            "ways": [
                {
                    "name": way.name,
                    "milliseconds": way.milliseconds,
                    "share_of_bandwidth": way.share(self.bandwidth),
                }
                for way in self.ways
            ],
        }


@torch.inference_mode()
def row_table(runner: Runner, repeats: int, tick: Callable[[], Any] = lambda: None) -> RowTable:
    """Time `repeats` forwards of each size and way; `tick` is called after each round.

    On a CPU transformers' model is copied to float32 and to bfloat16, where there is memory for it;
    elsewhere it is the one that is decoded.
    """
    forwards: dict[str, tuple[Forward, int]] = {
        OURS: (_ours(runner), weight_bytes(runner.model)),
    }
    for dtype in DTYPES if runner.device.type == "cpu" else (runner.dtype,):
        model = _in_dtype(runner, dtype)
        if model is not None:
            name = f"transformers {str(dtype).removeprefix('torch.')}"
            forwards[name] = (_transformers(model, runner), weight_bytes(model))
    source = random.Random(0)
    seconds = dict[tuple[str, int], list[float]]()
    read = [_read_bandwidth(runner.device)]
    for round_ in range(repeats + 1):
        turns = [(name, rows) for name in forwards for rows in ROWS]
        for name, rows in source.sample(turns, len(turns)):
            began = time.perf_counter()
            forwards[name][0](rows)
            if round_:  # the first one warms up
                seconds.setdefault((name, rows), []).append(time.perf_counter() - began)
        read.append(_read_bandwidth(runner.device))
        tick()
    ways = [
        Way(name, [statistics.median(seconds[name, rows]) * 1e3 for rows in ROWS], size)
        for name, (_, size) in forwards.items()
    ]
    return RowTable(ways, statistics.median(read))


def _ours(runner: Runner) -> Forward:
    (tokens,) = made_up_texts(runner.vocabulary, TEXT + ROWS[-1])
    cache = runner.cache(1, TEXT + 2 * ROWS[-1])
    with runner.turn:
        runner.call([RowPlan.chain(0, 0, tokens[:TEXT])], cache)

    def forward(rows: int) -> None:
        plan = RowPlan.chain(0, TEXT, tokens[TEXT : TEXT + rows])
        with runner.turn:
            _wait(runner.call([plan], cache, runner.padded(rows))[0])

    return forward


def _transformers(model: Any, runner: Runner) -> Forward:
    tokens = torch.tensor(made_up_texts(runner.vocabulary, TEXT + ROWS[-1]), device=runner.device)
    cache = DynamicCache()
    model(input_ids=tokens[:, :TEXT], use_cache=True, **{CACHE: cache})

    def forward(rows: int) -> None:
        output = model(input_ids=tokens[:, TEXT : TEXT + rows], use_cache=True, **{CACHE: cache})
        _wait(output.logits)
        cache.crop(-rows)

    return forward


def _wait(logits: torch.Tensor) -> None:
    """A step chooses at every row."""
    logits[0].max(-1).indices.tolist()


def _in_dtype(runner: Runner, dtype: torch.dtype) -> Any:
    """The model in transformers' own layers and in a dtype; None where no memory is left for it."""
    if runner.dtype == dtype and not half_linears(runner.model):
        return runner.model
    size = num_weights(runner.model) * dtype.itemsize
    return copied(runner.model, dtype) if within_share(size, SHARE, runner.device) else None


def _read_bandwidth(device: torch.device) -> float:
    """Bytes a second of a sum over a large tensor."""
    numbers = torch.ones(READ // 4, device=device)
    best = 0.0
    for _ in range(3):
        began = time.perf_counter()
        float(numbers.sum())
        best = max(best, READ / (time.perf_counter() - began))
    return best
