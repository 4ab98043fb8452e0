"""Where visible slots may end under exact decoding: places within a block of 512 that change no
bit.

Attention sums over keys in pieces whose cut depends on how many there are. Ends at which the sums
are those over the whole block are found by comparing forwards, of trees and of prompts each for
themselves: kernels differ by the number of rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leapdecode.model.kv_store import EXACT_BUCKET

if TYPE_CHECKING:
    from leapdecode.model.exact import RowClasses
    from leapdecode.model.exact_probe import Probe

# That are tried. On CPUs sums over a block are cut into other pieces at 256, which shows behind one
# context in five.
ENDS = (64, 128, 192, 384, 448)
BEHIND = (0, EXACT_BUCKET)  # cached tokens before the block that ends early
STEP, SPAN = 24, 124  # trees are compared behind contexts so far apart, up to so far before an end
SHORT = 0.5  # of a prompt's rows: the second number of rows that is compared


def same(found: list[Tensor], reference: list[Tensor]) -> bool:
    """Whether two chains agree bit for bit as far as both go."""
    count = min(len(found[0]), len(reference[0]))
    return all(
        torch.equal(one[:count], other[:count]) for one, other in zip(found, reference, strict=True)
    )


def ends_of_trees(probe: Probe, classes: RowClasses) -> tuple[int, ...]:
    """Where visible slots may end in forwards of trees."""
    whole = replace(classes, unit=1, ends=())

    def keeps(end: int) -> bool:
        early = replace(whole, ends=(end,))
        return all(
            same(probe.behind(context, rows, early), probe.behind(context, rows, whole))
            for context, rows in _trees(end, classes.unit, probe.held)
        )

    return tuple(end for end in ENDS if keeps(end))


def _trees(end: int, unit: int, held: int) -> Iterator[tuple[int, int]]:
    """(context, rows) of chains that end at `end` of a block, or a little before."""
    for block, before, rows in itertools.product(BEHIND, range(0, SPAN, STEP), (unit, 2 * unit)):
        context = block + end - before - rows
        if context > 0 and context + rows <= held:
            yield context, rows


def ends_of_prompts(probe: Probe, classes: RowClasses) -> tuple[int, ...]:
    """Those of `classes.ends` where visible slots may end in forwards of prompts, too.

    A row's bits must not depend on the number of rows (`any_prefix`), so one forward over a whole
    block is what all are compared with.
    """
    whole = replace(classes, prompt_ends=())
    found = [end for end in classes.ends if end <= probe.longest]
    for block in BEHIND:
        most = min(EXACT_BUCKET, probe.longest, probe.held - block)
        if most < classes.unit:
            break
        reference = probe.prompt(block, most, whole)
        for end in [end for end in found if end <= most]:
            early = replace(classes, prompt_ends=(end,))
            counts = (end, classes.padded(int(SHORT * end)))
            if not all(same(probe.prompt(block, rows, early), reference) for rows in counts):
                found.remove(end)
    return tuple(found)
