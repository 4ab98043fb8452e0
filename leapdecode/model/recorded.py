"""Finds out at loading whether a runner's forwards can be recorded, and records some ahead.

Shapes: V vocabulary.
"""

import logging

import torch
from torch import Tensor

from leapdecode.errors import UnsupportedModel
from leapdecode.model.masks import RowPlan
from leapdecode.model.recorder import ALONE, MOST_ROWS, Recorder
from leapdecode.model.runner import Runner
from leapdecode.model.traits import first_line

LOG = logging.getLogger("leapdecode")
TRIED = (5, 20, 70)  # cached tokens behind which replayed forwards are compared with launched ones
TRIED_ROWS = 4
AHEAD = (64, 300)  # cached tokens behind which the first forwards of a text are recorded at loading
RESERVED, RESERVED_BYTES = 2048, 1 << 29  # most slots of the cache for that, and what it may take


@torch.inference_mode()
def record(runner: Runner) -> None:
    """Let a runner's small forwards be recorded where its model is whole on one GPU.

    Not where recording fails (a model may ask the GPU for a value in between), or where a replayed
    forward gives other logits than a launched one.
    """
    devices = {weight.device for weight in runner.model.parameters()}
    if runner.device.type != "cuda" or devices != {runner.device} or runner.ranks.size > 1:
        return
    name = type(runner.model).__name__
    recorder = Recorder()
    trial = runner.trying(recorder=recorder)
    try:
        launched = _tried(trial)
        recorder.on = True
        replayed = _tried(trial)
        torch.cuda.synchronize(runner.device)
    except RuntimeError as error:  # what CUDA raises where it cannot record
        LOG.info("%s is not recorded: %s", name, first_line(error), exc_info=True)
        return
    except Exception as error:  # a model's own code may raise anything, and so may ours
        LOG.warning("%s is not recorded: %s", name, first_line(error), exc_info=True)
        return
    equal = all(torch.equal(one, other) for one, other in zip(launched, replayed, strict=True))
    if recorder.on and equal:
        runner.record_by(recorder)
    elif recorder.on:
        LOG.info("%s is not recorded: replayed forwards give other logits", name)


def _tried(runner: Runner) -> list[Tensor]:
    """Logits [`TRIED_ROWS`, V] of chains behind each number of cached tokens."""
    if runner.max_length < max(TRIED) + TRIED_ROWS:
        raise UnsupportedModel("its context is too short to try")
    found, cache = list[Tensor](), runner.cache(1, max(TRIED) + TRIED_ROWS)
    for length in TRIED:
        plan = _chain(runner, length, TRIED_ROWS)
        found.append(runner.call([plan], cache, TRIED_ROWS)[0][0].clone())
    runner.release(cache)
    return found


def _chain(runner: Runner, length: int, rows: int) -> RowPlan:
    """A chain of `rows` made-up tokens behind `length` others."""
    return RowPlan.chain(0, length, [(length + row) % runner.vocabulary for row in range(rows)])


@torch.inference_mode()
def record_ahead(runner: Runner) -> None:
    """Record what short texts will need, in a spare cache that most texts fit into.

    A recording takes some 50 ms, and all of them are lost where a text needs a larger cache.
    """
    if runner.recorder is None:
        return
    most = MOST_ROWS if runner.exact is None else max(runner.exact.most, runner.exact.unit)
    counts = sorted({runner.padded(rows) for rows in ALONE[1:] if rows <= most})
    bytes_per_token = max(runner.layout.bytes_per_token, 1)
    slots = min(RESERVED, runner.max_length, RESERVED_BYTES // bytes_per_token)
    asked = [(length, rows) for length in AHEAD for rows in counts if length + rows <= slots]
    try:
        cache = runner.cache(1, slots)
        for length, rows in asked:
            for _ in range(2):  # the first one is launched
                runner.call([_chain(runner, length, rows)], cache, rows)
        runner.release(cache)
    except RuntimeError as error:  # no memory is left
        LOG.info("nothing is recorded ahead: %s", first_line(error), exc_info=True)
