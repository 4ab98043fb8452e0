"""Small forwards recorded as CUDA graphs: replaying one launches all of its kernels at once.

A forward of few rows takes a GPU less time than Python needs to launch its kernels one by one, so
without a recording the GPU waits. A recording holds shapes and addresses: there is one for each
number of rows and of visible slots, so both are rounded up, and it belongs to its cache.

Shapes: B sequences in the forward, R rows of each, V vocabulary.
"""

import logging
import threading
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from leapdecode.errors import UnsupportedModel
from leapdecode.model.backend import Backend, RowForward
from leapdecode.model.exactness import Exactness
from leapdecode.model.kv_store import EXACT_BUCKET, SlotCache, bucketed
from leapdecode.model.masks import RowPlan
from leapdecode.model.runner import Runner
from leapdecode.model.traits import first_line

LOG = logging.getLogger("leapdecode")
MOST_ROWS, MOST_TEXT = 128, 2  # rows of a recorded forward, and of them missing text
# rows of a sequence alone: on an H100 one takes 9.4 ms at 7B, 8 take 10.3, 32 10.8 and 128 11.6
ALONE = (0, 1, 8, 32, MOST_ROWS)
LEAST_SLOTS = 256  # visible slots are this times a power of two
MOST_RECORDINGS = 64  # of a cache; the oldest go
ONE_AT_A_TIME = threading.Lock()  # of recordings under way, whatever their models
TRIED = (5, 20, 70)  # cached tokens behind which replayed forwards are compared with launched ones
TRIED_ROWS = 4
AHEAD = (64, 300)  # cached tokens behind which the first forwards of a text are recorded at loading
RESERVED, RESERVED_BYTES = 2048, 1 << 29  # most slots of the cache for that, and what it may take


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << (number - 1).bit_length() if number > 1 else number


def twin(tensor: Tensor) -> Tensor:
    """A copy with the same strides and offset into its storage, in which compiled code would tell
    a plain copy apart and be compiled anew, which no recording survives.
    """
    offset = int(tensor.storage_offset())
    storage = tensor.new_empty(tensor.untyped_storage().nbytes() // tensor.element_size())
    return storage.as_strided(tensor.size(), tensor.stride(), offset).copy_(tensor)


@dataclass(slots=True)
class Recording:
    """A graph, the tensors that it reads, and the logits [B, R, V] that a replay writes."""

    graph: Any
    inputs: list[Tensor]
    logits: Tensor

    def replay(self, inputs: list[Tensor]) -> Tensor:
        """The logits for other `inputs` of the same shapes."""
        for recorded, tensor in zip(self.inputs, inputs, strict=True):
            recorded.copy_(tensor)
        self.graph.replay()
        return self.logits.clone()  # the next replay writes to the same place


class Recorded(Backend):
    """Records and replays a runner's small forwards.

    The first forward of a kind is launched, which loads its kernels; the second one is recorded.

    Attributes:
        on: whether anything is recorded and replayed; numbers of rows are rounded up in any case.
        stream: on which forwards are recorded.
    """

    def __init__(self, inside: Backend) -> None:
        super().__init__(inside)
        self.recorded = True
        self.on = False
        self.stream: Any = None

    def padded(self, rows: int, batch: int, exact: Exactness | None) -> int:
        """Rounded up to few numbers, as far as forwards of so many rows are known to be exact."""
        rows = super().padded(rows, batch, exact)
        if rows > MOST_ROWS:
            return rows
        if exact is None and batch == 1:
            return next(size for size in ALONE if size >= rows)
        wider = power_of_two(rows)
        return rows if exact and wider * batch > max(exact.most, exact.unit) else wider

    def visible(self, slots: int, prompt: bool, exact: Exactness | None) -> int:
        """Few numbers: a recording serves one of them. Whole blocks under exact decoding."""
        if prompt:
            return super().visible(slots, prompt, exact)
        return bucketed(slots, EXACT_BUCKET) if exact else power_of_two(max(slots, LEAST_SLOTS))

    def takes(self, forward: RowForward) -> bool:
        """Whether a forward may be recorded."""
        known = self.on and forward.program is not None
        adjoining = isinstance(forward.cache.aimed.batch_slots, slice)
        return known and adjoining and forward.small(MOST_ROWS, MOST_TEXT)

    def logits(self, forward: RowForward) -> Tensor:
        if not self.takes(forward):
            return super().logits(forward)
        aimed = forward.cache.aimed
        shape = (str(aimed.batch_slots), aimed.kv_length, forward.rows, forward.num_logits)
        key = (forward.program, shape)
        recordings: dict[Any, Recording | None] = forward.cache.recordings
        if key not in recordings:
            if len(recordings) >= MOST_RECORDINGS:
                recordings.pop(next(iter(recordings)))
            recordings[key] = None
        elif recordings[key] is None:
            recordings[key] = self._recorded(forward)
        recording = recordings[key]
        if recording is None:
            return super().logits(forward)
        return recording.replay(_inputs(forward.arguments, forward.cache))

    def _recorded(self, forward: RowForward) -> Recording | None:
        """`_record`, or None where that fails: no memory is left for it, say."""
        try:
            return self._record(forward)
        except RuntimeError as error:
            self.on = False
            LOG.info("no more forwards are recorded: %s", first_line(error), exc_info=True)
            return None

    def _record(self, forward: RowForward) -> Recording:
        """A recording of a forward, which computes nothing yet."""
        cache = forward.cache
        aimed = cache.aimed
        mask = forward.arguments["attention_mask"]
        shared = aimed.shared
        index = aimed.index
        copies = dict(forward.arguments)
        for name in ("input_ids", "position_ids"):
            copies[name] = twin(copies[name])
        copies["attention_mask"] = (
            {kind: twin(part) for kind, part in mask.items()}
            if isinstance(mask, dict)
            else twin(mask)
        )
        aimed.shared = None if shared is None else twin(shared)
        aimed.index = {heads: twin(slots) for heads, slots in index.items()}
        inputs = _inputs(copies, cache)
        self.stream = self.stream or torch.cuda.Stream(copies["input_ids"].device)
        graph = torch.cuda.CUDAGraph()
        recordings = filter(None, cache.recordings.values())
        # no two of a cache's recordings run at a time, so they share memory
        pool = next((recording.graph.pool() for recording in recordings), None)
        try:
            # other threads may launch and free what they like meanwhile
            capture = torch.cuda.graph(
                graph, pool=pool, stream=self.stream, capture_error_mode="thread_local"
            )
            with ONE_AT_A_TIME, capture:
                logits = super().logits(replace(forward, arguments=copies))
        finally:
            aimed.shared = shared
            aimed.index = index
        return Recording(graph, inputs, logits)


def _inputs(arguments: dict[str, Any], cache: SlotCache) -> list[Tensor]:
    """The tensors that differ from forward to forward, those that say where to write among them."""
    mask = arguments["attention_mask"]
    aimed = cache.aimed
    masks = [*mask.values()] if isinstance(mask, dict) else [mask]
    written = [*aimed.index.values()] if aimed.shared is None else [aimed.shared]
    return [arguments["input_ids"], arguments["position_ids"], *masks, *written]


@torch.inference_mode()
def with_recording(runner: Runner) -> Runner:
    """A runner whose small forwards are recorded, where its model is whole on one GPU.

    Not where recording fails (a model may ask the GPU for a value in between), or where a replayed
    forward gives other logits than a launched one.
    """
    devices = {weight.device for weight in runner.model.parameters()}
    if runner.device.type != "cuda" or devices != {runner.device} or runner.ranks.size > 1:
        return runner
    name = type(runner.model).__name__
    backend = Recorded(runner.backend)
    trial = runner.trying(backend=backend)
    try:
        launched = _tried(trial)
        backend.on = True
        replayed = _tried(trial)
        torch.cuda.synchronize(runner.device)
    except RuntimeError as error:  # what CUDA raises where it cannot record
        LOG.info("%s is not recorded: %s", name, first_line(error), exc_info=True)
        return runner
    except Exception as error:  # a model's own code may raise anything, and so may ours
        LOG.warning("%s is not recorded: %s", name, first_line(error), exc_info=True)
        return runner
    equal = all(
        torch.equal(first, second) for first, second in zip(launched, replayed, strict=True)
    )
    if backend.on and not equal:
        LOG.info("%s is not recorded: replayed forwards give other logits", name)
    return trial if backend.on and equal else runner


def _tried(runner: Runner) -> list[Tensor]:
    """Logits [`TRIED_ROWS`, V] of chains behind each number of cached tokens."""
    if runner.max_length < max(TRIED) + TRIED_ROWS:
        raise UnsupportedModel("its context is too short to try")
    logits = list[Tensor]()
    cache = runner.cache(1, max(TRIED) + TRIED_ROWS)
    for length in TRIED:
        plan = _chain(runner, length, TRIED_ROWS)
        logits.append(runner.call([plan], cache, TRIED_ROWS)[0][0].clone())
    runner.release(cache)
    return logits


def _chain(runner: Runner, length: int, rows: int) -> RowPlan:
    """A chain of `rows` made-up tokens behind `length` others."""
    return RowPlan.chain(0, length, [(length + row) % runner.vocabulary for row in range(rows)])


@torch.inference_mode()
def record_ahead(runner: Runner) -> None:
    """Record what short texts will need, in a spare cache that most texts fit into.

    A recording takes some 50 ms, and all of them are lost where a text needs a larger cache.
    """
    if not runner.backend.recorded:
        return
    most = MOST_ROWS if runner.exact is None else max(runner.exact.most, runner.exact.unit)
    counts = sorted({runner.padded(rows) for rows in ALONE[1:] if rows <= most})
    bytes_per_token = max(runner.layout.bytes_per_token, 1)
    slots = min(RESERVED, runner.max_length, RESERVED_BYTES // bytes_per_token)
    shapes = [(length, rows) for length in AHEAD for rows in counts if length + rows <= slots]
    try:
        cache = runner.cache(1, slots)
        for length, rows in shapes:
            for _ in range(2):  # the first one is launched
                runner.call([_chain(runner, length, rows)], cache, rows)
        runner.release(cache)
    except RuntimeError as error:  # no memory is left
        LOG.info("nothing is recorded ahead: %s", first_line(error), exc_info=True)
