"""Exact decoding: forwards shaped so that a row's logits depend on its own text alone, bit for bit.

A row's bits depend on the kernel that computes it, and kernels are chosen by the number of rows. On most machines
one row takes another kernel than many, and the rows left over behind whole blocks another one again. So under exact
decoding every forward has a multiple of `unit` rows per sequence (padded), at most `most` in all, and attention sees
slots in whole blocks. Which numbers do it is a property of the model's shapes, the dtype, the device and the versions;
`find_row_classes` finds them on the loaded model by comparing logits bit for bit.
"""

from __future__ import annotations

import itertools
import random
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leapdecode.model.cost import keep, kept, model_key
from leapdecode.model.kv_store import EXACT_BUCKET, SlotCache
from leapdecode.model.masks import RowPlan

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

FORMAT = 3  # of what is kept on disk
UNITS = (1, 2, 4, 8, 16, 32)
MOST_ROWS = 128
MOSTS = (64, 48, 32, 16)  # tried after it, in turn: the first whose unit is cheap counts, else the first with a unit
CONTEXT = 700  # cached tokens behind which rows are compared: one whole block of keys and a part
COMPARED = 16  # rows compared at least, over several forwards where one is smaller
MULTIPLES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32)  # of a unit: numbers of rows that are compared
SHOWN = (1, 2, 3, 4, 5, 6, 8, 16, 32)  # numbers of rows that are put into classes
FIRST = (1, 2, 4, 8, 16)  # those that are compared before anything else
STEPS = (1, 2)  # tokens of a padded forward: a mixture of experts sends few rows to some expert then
BATCHES = (2, 5)
TIMES = 7  # forwards of each kind that are timed; the fastest counts
AUTO_COST = 1.15  # "auto" is exact where a forward of `unit` rows takes at most this many times one of a single row


@dataclass(frozen=True)
class RowClasses:
    """What the probe found for a model, dtype, device and versions.

    Attributes:
        unit: rows per sequence are padded to a multiple of this; 0 where no unit makes rows bit-equal.
        most: rows of a forward, all sequences together, up to which this was seen.
        cost: time of a forward of `unit` rows against one of a single row.
        classes: row counts whose forwards gave equal bits, by class.
        reason: what differed, where `unit` is 0.
        whole: whether everything was compared. Where a unit is too dear for "auto" anyway, a few row counts are enough.
    """

    unit: int
    most: int
    cost: float
    classes: tuple[tuple[int, ...], ...]
    reason: str = ""
    whole: bool = True

    @property
    def cheap(self) -> bool:
        """Whether "auto" chooses exact decoding."""
        return self.unit > 0 and self.cost <= AUTO_COST

    def padded(self, rows: int) -> int:
        """The number of rows per sequence that a forward of `rows` is padded to."""
        return -(-rows // self.unit) * self.unit


class _Probe:
    """Forwards of chains behind made-up cached tokens (bits do not ask where keys came from); V: vocabulary."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.most = MOST_ROWS
        while 2 * self.most > runner.max_length and self.most > 1:
            self.most //= 2
        self.context = min(CONTEXT, runner.max_length - self.most)
        self.tokens = random.Random(0).choices(range(runner.vocabulary), k=2 * self.most)
        self.source = torch.Generator().manual_seed(0)
        self.keys = self._random_keys()
        self.chains: dict[tuple[int, ...], list[Tensor]] = {}

    def _random_keys(self) -> dict[Any, Tensor]:
        layout, made = self.runner.layout, {}
        pairs = [shape for pair in zip(layout.keys, layout.values, strict=True) for shape in pair]
        for heads, size in dict.fromkeys(pairs):
            shape = (pairs.count((heads, size)), heads, self.context, size)
            made[heads, size] = torch.randn(shape, generator=self.source).to(layout.dtype)
        return made

    def cache(self, batch: int) -> SlotCache:
        cache = self.runner.cache(batch, self.context + self.most + EXACT_BUCKET)
        for shape, stack in cache.stacks.items():
            stack[:, :, :, : self.context] = self.keys[shape][:, None].to(stack.device)
            stack[:, :, :, self.context :] = 0
        return cache

    def plan(self, row: int, first: int, count: int) -> RowPlan:
        """A chain of `count` of the probe's tokens from number `first` on, behind those before it."""
        tokens = self.tokens[first : first + count]
        ancestors = [(2 << place) - 1 for place in range(count)]
        base = self.context + first
        return RowPlan(row, base, base, [], [*range(count)], tokens, ancestors, [*range(count)])

    def chain(self, count: int, rows: int, batch: int = 1, more: int = 0, step: int = 0) -> list[Tensor]:
        """What a chain of `count` tokens gives, evaluated in forwards of `rows` rows per sequence.

        Returns its logits [count, V] and its keys and values [count, ...]. `more` further blocks of slots are
        visible. Neighbours in the batch hold other tokens, and fewer of them. With a `step` only so many of the rows
        are the chain's, as in plain decoding, and the rest is padded.
        """
        asked = (count, rows, batch, more, step or rows)
        if asked not in self.chains:
            self.chains[asked] = self._evaluate(*asked)
        return self.chains[asked]

    def _evaluate(self, count: int, rows: int, batch: int, more: int, step: int) -> list[Tensor]:
        cache, logits = self.cache(batch), []
        for first in range(0, count, step):
            size = min(step, count - first)
            plans = [self.plan(0, first, size)]
            plans += [self.plan(row, first + row, max(size - row, 1)) for row in range(1, batch)]
            logits.append(self.runner.call(plans, cache, rows=rows, more=more)[0][0, :size])
        span = slice(self.context, self.context + count)
        states = [stack[:, 0, :, span].transpose(0, 2).clone() for stack in cache.stacks.values()]
        self.runner.release(cache)
        return [torch.cat(logits), *states]

    def seconds(self, rows: int) -> float:
        """The fastest of a few forwards of one token padded to `rows` rows."""
        cache, taken = self.cache(1), []
        for _ in range(TIMES):
            began = time.perf_counter()
            self.runner.call([self.plan(0, 0, 1)], cache, rows=rows)[0][0, 0].argmax().item()
            taken.append(time.perf_counter() - began)
        self.runner.release(cache)
        return min(taken)


def _same(found: list[Tensor], reference: list[Tensor]) -> bool:
    """Whether two chains agree bit for bit as far as both go."""
    count = min(len(found[0]), len(reference[0]))
    return all(torch.equal(one[:count], other[:count]) for one, other in zip(found, reference, strict=True))


def _difference(probe: _Probe, unit: int, reference: list[Tensor]) -> str:
    """What, if anything, differs from `reference` in forwards of multiples of `unit` rows."""
    most = len(reference[0])
    for size in sorted({unit * number for number in MULTIPLES if unit * number < most} | {most}):
        if not _same(probe.chain(min(max(size, COMPARED), most), size), reference):
            return f"rows in forwards of {size} differ from rows in forwards of {most}"
    compared = min(COMPARED, most)
    for step in STEPS:
        if step < unit and not _same(probe.chain(compared, unit, step=step), reference):
            return f"rows in forwards of {unit} differ with what the other rows hold"
    if not _same(probe.chain(compared, 2 * unit, more=1), reference):
        return "rows differ with the number of visible slots"
    for batch in BATCHES if not probe.runner.compiled else ():  # compiled forwards take one sequence each
        for rows in (unit, 2 * unit):
            if batch * rows <= most and not _same(probe.chain(compared, rows, batch), reference):
                return f"rows in a batch of {batch} differ from rows of a text alone"
    return ""


def _classes(probe: _Probe, counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Row counts, put together where their forwards gave equal bits."""
    found = list[tuple[list[Tensor], list[int]]]()
    for size in counts:
        if size > probe.most:
            break
        given = probe.chain(min(max(size, COMPARED), probe.most), size)
        for known, sizes in found:
            if _same(known, given):
                sizes.append(size)
                break
        else:
            found.append((given, [size]))
    return tuple(tuple(sizes) for _, sizes in found)


@torch.inference_mode()
def find_row_classes(runner: Runner, whole: bool = True) -> RowClasses:
    """Compare logits over row counts, positions in a forward, neighbours, batches and visible slots.

    With `whole=False` the comparison ends early where exact decoding is not cheap.
    """
    before, runner.exact = runner.exact, RowClasses(1, MOST_ROWS, 1.0, ())
    try:
        return _compare(_Probe(runner), whole)
    finally:
        runner.exact = before


def _compare(probe: _Probe, whole: bool) -> RowClasses:
    classes = _classes(probe, SHOWN if whole else FIRST)
    if not whole:
        unit = next((unit for unit in FIRST if any(unit in sizes and FIRST[-1] in sizes for sizes in classes)), 0)
        early = RowClasses(unit, FIRST[-1], _cost(probe, unit), classes, whole=False)
        if not early.cheap:
            return early
    found = []
    for most in (probe.most, *(most for most in MOSTS if most < probe.most)):
        unit, reason = _unit(probe, most)
        found.append(RowClasses(unit, most, _cost(probe, unit), classes, reason))
        if found[-1].cheap:
            return found[-1]
    return next((one for one in found if one.unit), found[0])


def _unit(probe: _Probe, most: int) -> tuple[int, str]:
    """The smallest unit whose multiples up to `most` rows agree; 0 and what differed where there is none."""
    reference, reason = probe.chain(most, most), "its context is too short to tell"
    for unit in itertools.takewhile(lambda unit: 2 * unit <= most, UNITS):
        reason = _difference(probe, unit, reference)
        if not reason:
            return unit, ""
    return 0, reason


def _cost(probe: _Probe, unit: int) -> float:
    """Time of a forward of `unit` rows against one of a single row."""
    return probe.seconds(unit) / probe.seconds(1) if unit > 1 else float(unit)


def row_classes(runner: Runner, whole: bool = True, path: Path | None = None) -> RowClasses:
    """The model's classes on this machine: from disk, or found now and kept beside the row-cost curves."""
    how = "compiled | " if runner.compiled else ""
    key = f"{model_key(runner)} | {how}exact {FORMAT}"
    known = _read((kept(key, path) or {}).get("exact"))
    if known is None or (whole and not known.whole):
        found = find_row_classes(runner, whole)
        # what was too dear once stays so: a second timing decides nothing again
        known = found if known is None else replace(found, cost=max(found.cost, known.cost))
        keep(key, {"exact": asdict(known)}, path)
    return known


def _read(entry: Any) -> RowClasses | None:
    """What was kept, None where it is not of the expected form."""
    try:
        classes = tuple(tuple(int(size) for size in sizes) for sizes in entry["classes"])
        unit, most, cost = int(entry["unit"]), int(entry["most"]), float(entry["cost"])
        return RowClasses(unit, most, cost, classes, str(entry["reason"]), bool(entry["whole"]))
    except (TypeError, KeyError, ValueError):
        return None
