"""Small forwards recorded as CUDA graphs: replaying one launches all of its kernels at once.

A forward of few rows takes a GPU less time than Python needs to launch its kernels one by one, so
without a recording the GPU waits. A recording holds shapes and addresses: there is one for each
number of rows and of visible slots, so both are rounded up, and it belongs to its cache.

Shapes: B sequences in the forward, R rows of each, V vocabulary.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leapdecode.model.kv_store import SlotCache
from leapdecode.model.traits import first_line

LOG = logging.getLogger("leapdecode")
MOST_ROWS, MOST_TEXT = 128, 2  # rows of a recorded forward, and of them missing text
# rows of a sequence alone: on an H100 one takes 9.4 ms at 7B, 8 take 10.3, 32 10.8 and 128 11.6
ALONE = (0, 1, 8, 32, MOST_ROWS)
LEAST_SLOTS = 256  # visible slots are this times a power of two
MOST_RECORDINGS = 64  # of a cache; the oldest go
ONE_AT_A_TIME = threading.Lock()  # of recordings under way, whatever their models


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


class Recorder:
    """Decides which of a runner's forwards are recorded, records and replays them.

    The first forward of a kind is launched, which loads its kernels; the second one is recorded.
    """

    def __init__(self) -> None:
        self.on = False
        self.stream: Any = None  # on which forwards are recorded

    def padded(self, rows: int, few: bool) -> int:
        """The number of rows per sequence that a forward of `rows` each is padded to, out of `few`
        numbers or more.
        """
        if rows > MOST_ROWS:
            return rows
        return next(size for size in ALONE if size >= rows) if few else power_of_two(rows)

    def visible(self, slots: int) -> int:
        """How many slots attention sees where it needs `slots`."""
        return power_of_two(max(slots, LEAST_SLOTS))

    def takes(self, rows: int, num_logits: int, cache: SlotCache) -> bool:
        """Whether a forward of `rows` per sequence, `num_logits` of them with logits, may be
        recorded.
        """
        small = rows <= MOST_ROWS and rows - num_logits <= MOST_TEXT
        return self.on and small and isinstance(cache.aimed.batch_slots, slice)

    def __call__(
        self, forward: Callable[..., Any], arguments: dict[str, Any], cache: SlotCache, kind: Any
    ) -> Tensor:
        """The logits of `forward(**arguments)`; `kind` tells forwards of equal shapes apart."""
        aimed = cache.aimed
        key = (kind, str(aimed.batch_slots), aimed.kv_length, arguments["input_ids"].shape[1])
        recordings: dict[Any, Recording | None] = cache.recordings
        if key not in recordings:
            if len(recordings) >= MOST_RECORDINGS:
                recordings.pop(next(iter(recordings)))
            recordings[key] = None
        elif recordings[key] is None:
            recordings[key] = self._recorded(forward, arguments, cache)
        recording = recordings[key]
        if recording is not None:
            return recording.replay(_inputs(arguments, cache))
        logits: Tensor = forward(**arguments).logits
        return logits

    def _recorded(
        self, forward: Callable[..., Any], arguments: dict[str, Any], cache: SlotCache
    ) -> Recording | None:
        """`_record`, or None where that fails: no memory is left for it, say."""
        try:
            return self._record(forward, arguments, cache)
        except RuntimeError as error:
            self.on = False
            LOG.info("no more forwards are recorded: %s", first_line(error), exc_info=True)
            return None

    def _record(
        self, forward: Callable[..., Any], arguments: dict[str, Any], cache: SlotCache
    ) -> Recording:
        """A recording of `forward`, which computes nothing yet."""
        aimed = cache.aimed
        mask = arguments["attention_mask"]
        shared = aimed.shared
        index = aimed.index
        copies = dict(arguments)
        for name in ("input_ids", "position_ids"):
            copies[name] = twin(arguments[name])
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
                logits = forward(**copies).logits
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
