"""How few rows the sequences of a batch may have under exact decoding.

Kernels of all layers but attention are chosen by the rows of a whole forward, so the sequences of a
batch share the unit there, where attention is padded for itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from torch import Tensor

from leapdecode.model.exact_ends import same
from leapdecode.model.facts import LOG

if TYPE_CHECKING:
    from leapdecode.model.exact import RowClasses
    from leapdecode.model.exact_probe import Probe

BATCHES = (2, 3, 4, 5, 8)  # sizes that are compared
ROWS = (1, 3)  # per sequence, before padding
COMPARED = 8  # tokens of a chain


def grain_of(probe: Probe, classes: RowClasses) -> int:
    """The finest grain at which batches give the bits of texts alone; 0 where there is none.

    Compiled forwards take one sequence each, so they have no batches.
    """
    if probe.runner.compiled or classes.unit == 1 or not probe.runner.folds:
        return 0
    reference = probe.chain(COMPARED, classes.unit)
    grains = (1, classes.unit)
    return next((one for one in grains if _agrees(probe, classes, one, reference)), 0)


def _agrees(probe: Probe, classes: RowClasses, grain: int, reference: list[Tensor]) -> bool:
    """Whether forwards of that grain give the bits of `reference`."""
    before, probe.runner.exact = probe.runner.exact, replace(classes, grain=grain)
    padded = [(batch, probe.runner.padded(rows, batch)) for batch in BATCHES for rows in ROWS]
    sizes = {(batch, rows) for batch, rows in padded if batch * rows <= classes.most}
    try:
        return all(same(probe.chain(COMPARED, rows, batch), reference) for batch, rows in sizes)
    except Exception:  # a model's own code may do anything with a mask of more rows than queries
        LOG.warning("batches have whole units of rows: forwards of others fail", exc_info=True)
        return False
    finally:
        probe.runner.exact = before
