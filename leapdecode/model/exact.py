"""Exact decoding: forwards shaped so that a row's logits depend on its own text alone, bit for bit.

A row's bits depend on the kernel that computes it, and kernels are chosen by the number of rows. So
under exact decoding every forward has a multiple of `unit` rows per sequence (padded), at most
`most` in all, and attention sees slots in whole blocks, or to an end within the last one that
changes no bit. `find_row_classes` finds these numbers by comparing logits bit for bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from leapdecode.core import Forward
from leapdecode.model.exact_batches import grain_of
from leapdecode.model.exact_ends import ENDS, ends_of_prompts, ends_of_trees, same
from leapdecode.model.exact_probe import MOST_ROWS, Probe
from leapdecode.model.facts import announce, keep, kept, model_key, number
from leapdecode.model.facts import whole as whole_number
from leapdecode.model.kv_store import EXACT_BUCKET

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

FORMAT = 11  # of what is kept on disk
UNITS = (1, 2, 4, 8, 16, 32)
# tried after it, in turn: the first whose unit is cheap counts, else the first with a unit
MOSTS = (64, 48, 32, 16)
COMPARED = 16  # rows compared at least, over several forwards where one is smaller
MULTIPLES = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32)  # of a unit: numbers of rows that are compared
SHOWN = (1, 2, 3, 4, 5, 6, 8, 16, 32)  # numbers of rows that are put into classes
FIRST = (1, 2, 4, 8, 16)  # those that are compared before anything else
# tokens of a padded forward: a mixture of experts sends few rows to some expert then
STEPS = (1, 2)
BATCHES = (2, 5)
# "auto" is exact where a forward of `unit` rows takes at most this many times one of a single row
AUTO_COST = 1.15
LARGEST_COST = 1e6  # times one row's; no machine is like that
MARGIN = 0.35  # a unit may cost so much more behind whole blocks, before ends are known


@dataclass(frozen=True)
class RowClasses:
    """What the probe found for a model, dtype, device and versions.

    Attributes:
        unit: rows per sequence are padded to a multiple of this; 0 where no unit makes rows
            bit-equal.
        most: rows of a forward, all sequences together, up to which this was seen.
        cost: time of a forward of `unit` rows against one of a single row.
        classes: row counts whose forwards gave equal bits, by class.
        reason: what differed, where `unit` is 0.
        any_prefix: whether forwards of up to a whole chunk of text, padded like all others, gave
            equal bits too: then any cached tokens may stand in for those that a later text's own
            forwards would cache.
        whole: whether everything was compared. Where a unit is too dear for "auto" anyway, a few
            row counts are enough.
        ends: visible slots may end so far within the last block, in forwards of trees; such
            forwards gave the bits of those that see all of it.
        prompt_ends: the same for forwards of prompts.
        grain: 0 where every sequence of a batch has a multiple of `unit` rows. Else attention alone
            does, and the rows of all sequences together are a multiple of `unit` (`grain` equals
            it) or any number from `unit` on (1).
    """

    unit: int
    most: int
    cost: float
    classes: tuple[tuple[int, ...], ...]
    reason: str = ""
    any_prefix: bool = False
    whole: bool = True
    ends: tuple[int, ...] = ()
    prompt_ends: tuple[int, ...] = ()
    grain: int = 0

    @property
    def cheap(self) -> bool:
        """Whether "auto" chooses exact decoding."""
        return self.unit > 0 and self.cost <= AUTO_COST

    def padded(self, rows: int, batch: int = 1) -> int:
        """The number of rows per sequence that a forward of `rows` each is padded to."""
        if not self.grain or batch == 1 or rows == 0:
            return self.attended(rows)
        if self.grain == 1:
            return max(rows, -(-self.unit // batch))
        step = self.unit // math.gcd(self.unit, batch)
        return -(-rows // step) * step

    def attended(self, rows: int) -> int:
        """The number of rows per sequence that attention is padded to."""
        return -(-rows // self.unit) * self.unit

    def visible(self, slots: int, prompt: bool) -> int:
        """How many slots attention sees where it needs `slots`, in a tree or in a prompt."""
        blocks, rest = divmod(slots, EXACT_BUCKET)
        ends = self.prompt_ends if prompt else self.ends
        end = next((end for end in ends if end >= rest), EXACT_BUCKET) if rest else 0
        return blocks * EXACT_BUCKET + end

    def batches(self, requests: list[Forward], compiled: bool) -> Iterator[list[Forward]]:
        """As many requests at a time as keep to the number of rows that was probed.

        A compiled forward takes one sequence, and its bits are its own.
        """
        batch, rows = list[Forward](), 0
        for request in requests:
            size, wider = len(batch) + 1, max(rows, len(request.tree))
            if batch and (compiled or self.padded(wider, size) * size > self.most):
                yield batch
                batch, wider = [], len(request.tree)
            batch.append(request)
            rows = wider
        yield batch


def _difference(probe: Probe, unit: int, most: int, context: int) -> str:
    """What, if anything, differs between forwards of multiples of `unit` rows, up to `most`."""

    def agrees(count: int, rows: int, **how: int) -> bool:
        return same(probe.chain(count, rows, context=context, **how), reference)

    reference = probe.chain(most, most, context=context)
    for size in sorted({unit * times for times in MULTIPLES if unit * times < most} | {most}):
        if not agrees(min(max(size, COMPARED), most), size):
            return f"rows in forwards of {size} differ from rows in forwards of {most}"
    compared = min(COMPARED, most)
    for step in STEPS:
        if step < unit and not agrees(compared, unit, step=step):
            return f"rows in forwards of {unit} differ with what the other rows hold"
    if not agrees(compared, min(2 * unit, most), more=1):
        return "rows differ with the number of visible slots"
    # compiled forwards take one sequence each
    for batch in BATCHES if not probe.runner.compiled else ():
        for rows in (unit, 2 * unit):
            if batch * rows <= most and not agrees(compared, rows, batch=batch):
                return f"rows in a batch of {batch} differ from rows of a text alone"
    return ""


def _classes(probe: Probe, counts: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Row counts, put together where their forwards gave equal bits."""
    found = list[tuple[list[Tensor], list[int]]]()
    for size in counts:
        if size > probe.most:
            break
        given = probe.chain(min(max(size, COMPARED), probe.most), size)
        for known, sizes in found:
            if same(known, given):
                sizes.append(size)
                break
        else:
            found.append((given, [size]))
    return tuple(tuple(sizes) for _, sizes in found)


@torch.inference_mode()
def find_row_classes(runner: Runner, whole: bool = True) -> RowClasses:
    """Compare logits over row counts, positions in a forward, neighbours, batches and visible
    slots.

    With `whole=False` the comparison ends early where exact decoding is not cheap.
    """
    before, runner.exact = runner.exact, RowClasses(1, MOST_ROWS, 1.0, ())
    try:
        return _compare(Probe(runner), whole)
    finally:
        runner.exact = before


def _compare(probe: Probe, whole: bool) -> RowClasses:
    classes = _classes(probe, SHOWN if whole else FIRST)
    if not whole:
        alike = next((sizes for sizes in classes if FIRST[-1] in sizes), (FIRST[-1],))
        early = RowClasses(alike[0], FIRST[-1], probe.cost(alike[0]), classes, whole=False)
        if early.cost > AUTO_COST + MARGIN:
            return early
    found = []
    for most in (probe.most, *(most for most in MOSTS if most < probe.most)):
        unit, reason = _unit(probe, most)
        found.append(RowClasses(unit, most, probe.cost(unit), classes, reason))
        if unit and found[-1].cost <= AUTO_COST + MARGIN:
            break
    best = min(found, key=lambda one: (not one.unit, one.cost > AUTO_COST + MARGIN))
    if not best.unit:
        return best
    best = replace(best, grain=grain_of(probe, best))
    best = replace(best, ends=ends_of_trees(probe, best))
    best = replace(best, any_prefix=_any_prefix(probe, best), cost=probe.price(best))
    return replace(best, prompt_ends=ends_of_prompts(probe, best)) if best.any_prefix else best


def _unit(probe: Probe, most: int) -> tuple[int, str]:
    """The smallest unit whose multiples up to `most` rows agree; 0 and what differed where there is
    none.
    """
    reason = "its context is too short to tell"
    for unit in itertools.takewhile(lambda unit: unit <= most, UNITS):
        found = (_difference(probe, unit, most, context) for context in probe.contexts)
        reason = next(filter(None, found), "")
        if not reason:
            return unit, ""
    return 0, reason


def _any_prefix(probe: Probe, classes: RowClasses) -> bool:
    """Whether a text's keys and values have the same bits however it is cut into chunks."""
    probe.runner.exact = classes
    count = probe.longest
    reference = probe.text(count, classes.most)
    sizes = (count, count - classes.unit, classes.most + classes.unit, classes.unit)
    return all(
        same(probe.text(min(count, 2 * size), size), reference) for size in sizes if size > 0
    )


def row_classes(
    runner: Runner, whole: bool = True, path: Path | None = None, anew: bool = False
) -> RowClasses:
    """The model's classes on this machine: from disk, or found now and kept beside the row-cost
    curves. With `anew` what is on disk is not believed.
    """
    how = ("compiled | " if runner.compiled else "") + ("recorded | " if runner.recorder else "")
    key = f"{model_key(runner)} | {how}exact {FORMAT}"
    known = runner.ranks.agreed(_read((kept(key, path) or {}).get("exact")))
    if known is None or anew or (whole and not known.whole):
        announce("which forwards give equal bits", 20)
        found = find_row_classes(runner, whole)
        # another process may have found them meanwhile
        known = runner.ranks.agreed(_read((kept(key, path) or {}).get("exact"))) or known
        # what was too dear once stays so: a second timing decides nothing again
        known = found if known is None else replace(found, cost=max(found.cost, known.cost))
        keep(key, {"exact": asdict(known)}, path)
    return known


def _read(entry: Any) -> RowClasses | None:
    """What was kept, None where it is not of the expected form."""
    names = {field.name for field in fields(RowClasses)}
    if not isinstance(entry, dict) or set(entry) != names or not _sound(RowClasses(**entry)):
        return None
    lists = {name: tuple(entry[name]) for name in ("ends", "prompt_ends")}
    classes = tuple(map(tuple, entry["classes"]))
    return RowClasses(**{**entry, **lists, "classes": classes})


def _sound(found: RowClasses) -> bool:
    """Whether values of a file can be what `find_row_classes` finds."""
    unit, ends, prompts = found.unit, found.ends, found.prompt_ends
    return (
        (unit == 0 if found.reason else unit in UNITS)
        and whole_number(unit, 0, MOST_ROWS)
        and whole_number(found.most, max(unit, 1), MOST_ROWS)
        and whole_number(found.grain, 0, MOST_ROWS)
        and found.grain in (0, 1, unit)
        and number(found.cost, 0, LARGEST_COST)
        and isinstance(found.reason, str)
        and type(found.any_prefix) is bool
        and type(found.whole) is bool
        # lists of a file, tuples of this process
        and isinstance(found.classes, list | tuple)
        and all(isinstance(sizes, list | tuple) for sizes in found.classes)
        and all(map(_is_count, itertools.chain(*found.classes)))
        and isinstance(ends, list | tuple)
        and isinstance(prompts, list | tuple)
        and all(type(end) is int for end in (*ends, *prompts))
        and [end for end in ENDS if end in ends] == list(ends)
        and [end for end in ends if end in prompts] == list(prompts)
    )


def _is_count(value: Any) -> bool:
    return whole_number(value, 1, MOST_ROWS)
