"""The slot cache: preallocated keys and values that are written at given slots.

Shapes: L layers, B batch slots, H key/value heads, S slots, D head size, R rows evaluated per
sequence.
"""

import math
import mmap
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from leapdecode.model.masks import RootMask

BUCKET = 64  # the model sees a multiple of this many slots, so that shapes recur
CHUNK = 512  # rows of a prefill forward: its mask is [CHUNK, slots], never [n, n]
EXACT_BUCKET = 512  # under exact decoding: attention sums over keys in whole blocks


def bucketed(slots: int, bucket: int = BUCKET) -> int:
    """The smallest multiple of `bucket` that holds `slots`."""
    return -(-slots // bucket) * bucket


def lazy_zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on a CPU in fresh pages, so that only those that are written take time and memory."""
    size = math.prod(shape) * dtype.itemsize
    if device.type != "cpu" or size == 0:
        return torch.zeros(shape, dtype=dtype, device=device)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANON} if hasattr(mmap, "MAP_PRIVATE") else {}
    return torch.frombuffer(mmap.mmap(-1, size, **private), dtype=dtype).view(shape)


@dataclass(frozen=True)
class Layout:
    """Per layer (heads, key size) and (heads, value size), the dtype and the device, as read off
    one real forward.
    """

    keys: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        return sum(h * d for h, d in self.keys + self.values) * self.dtype.itemsize


@dataclass(slots=True)
class Aim:
    """Where the next forward writes and what it sees; one object for a cache and its layers.

    Attributes:
        batch_slots: those of the forward's sequences.
        kv_length: visible slots.
        length: cached tokens, as the model asks for them.
        shared: [R] slots to write, of a single sequence; else None.
        index: by number of heads, the flat places to write of several sequences.
    """

    batch_slots: slice | Tensor
    kv_length: int = 0
    length: int = 0
    shared: Tensor | None = None
    index: dict[int, Tensor] = field(default_factory=dict)


class SlotLayer(CacheLayerMixin):
    """One model layer's view of the slot cache."""

    is_compileable = True

    def __init__(self, aim: Aim, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self.aim, self.keys, self.values = aim, keys, values
        self.heads = keys.shape[1]
        self.flat_keys, self.flat_values = (
            keys.view(-1, keys.shape[-1]),
            values.view(-1, values.shape[-1]),
        )
        self.is_initialized = True
        # what is visible, where the aimed batch slots adjoin
        self.views: tuple[Tensor, Tensor] | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing to do: the slots exist already."""

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write [B, H, R, D] at the aimed slots; return what is visible, [B, H, S, D]."""
        if self.aim.shared is not None and self.views is not None:
            self.views[0].index_copy_(2, self.aim.shared, key_states)
            self.views[1].index_copy_(2, self.aim.shared, value_states)
            return self.views
        index = self.aim.index[self.heads]
        self.flat_keys.index_copy_(0, index, key_states.reshape(-1, key_states.shape[-1]))
        self.flat_values.index_copy_(0, index, value_states.reshape(-1, value_states.shape[-1]))
        return self.views or self.visible()

    def visible(self) -> tuple[Tensor, Tensor]:
        """What is visible in the aimed batch slots: views where they adjoin, else copies."""
        aimed, kv_length = self.aim.batch_slots, self.aim.kv_length
        return self.keys[aimed, :, :kv_length], self.values[aimed, :, :kv_length]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.aim.kv_length, 0

    def get_seq_length(self) -> int:
        return self.aim.length

    def get_max_length(self) -> int:
        return self.keys.shape[2] - 1


class SlotCache(Cache):
    """`batch_slots` of `slots` slots each, given to a model as its cache.

    Layers of equal shape share one stacked tensor [2 * L, B, H, S, D], so that moving a
    path's slots is one gather and one copy for all of them.
    """

    def __init__(self, layout: Layout, batch_slots: int, slots: int) -> None:
        self.layout, self.batch_slots, self.slots = layout, batch_slots, slots
        # one spare slot keeps the views non-contiguous, so one compiled graph serves all lengths
        room = slots + 1
        wanted = [shape for pair in zip(layout.keys, layout.values, strict=True) for shape in pair]
        self.stacks = {
            (h, d): lazy_zeros(
                (wanted.count((h, d)), batch_slots, h, room, d), layout.dtype, layout.device
            )
            for h, d in dict.fromkeys(wanted)
        }
        free = {shape: iter(stack) for shape, stack in self.stacks.items()}
        pairs = [
            (next(free[k]), next(free[v])) for k, v in zip(layout.keys, layout.values, strict=True)
        ]
        self.aimed = Aim(slice(0, batch_slots))
        super().__init__(layers=[SlotLayer(self.aimed, keys, values) for keys, values in pairs])
        heads = {h for h, _ in wanted}
        steps = torch.arange(batch_slots, device=layout.device)[:, None, None]
        self.offsets = {
            h: (steps * h + torch.arange(h, device=layout.device)[None, :, None]) * room
            for h in heads
        }
        self.root = RootMask()
        self.recordings: dict[Any, Any] = {}  # of forwards in this cache, see `recorded`

    def aim(self, batch_slots: list[int], slots_BR: Tensor, kv_length: int, length: int) -> None:
        """Point the next forward at `batch_slots`, its R tokens at `slots_BR`, `kv_length` slots
        being visible.

        `length` is what the cache answers when the model asks how many tokens it holds.

        One sequence's heads write to the same slots; several need an index over batch slots, heads
        and slots.
        """
        first, last = batch_slots[0], batch_slots[-1] + 1
        adjoining = batch_slots == list(range(first, last))
        chosen = (
            slice(first, last) if adjoining else torch.tensor(batch_slots, device=slots_BR.device)
        )
        aimed = self.aimed
        aimed.length = length
        aimed.shared = slots_BR[0] if len(batch_slots) == 1 else None
        if aimed.shared is None:
            aimed.index = {
                heads: (offset[chosen] + slots_BR[:, None, :]).reshape(-1)
                for heads, offset in self.offsets.items()
            }
        if adjoining and (chosen, kv_length) == (aimed.batch_slots, aimed.kv_length):
            return
        aimed.batch_slots, aimed.kv_length = chosen, kv_length
        for layer in self.layers:
            layer.views = layer.visible() if adjoining else None

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Straight to the layer: it exists, and nothing is offloaded."""
        return self.layers[layer_idx].update(key_states, value_states)

    def move(self, moves: list[tuple[int, list[int], list[int]]]) -> None:
        """Copy slots of sequences: each move is (batch slot, from slots, to slots); all sources are
        read before any write.
        """
        owners = [owner for owner, source, _ in moves for _ in source]
        sources = [slot for _, source, _ in moves for slot in source]
        targets = [slot for _, _, target in moves for slot in target]
        for (heads, size), stack in self.stacks.items():
            offsets = self.offsets[heads][torch.tensor(owners, device=stack.device)].squeeze(-1)
            flat = stack.view(stack.shape[0], -1, size)
            source = (offsets + torch.tensor(sources, device=stack.device)[:, None]).reshape(-1)
            target = (offsets + torch.tensor(targets, device=stack.device)[:, None]).reshape(-1)
            flat.index_copy_(1, target, flat.index_select(1, source))

    def clean(self, batch_slot: int, first: int) -> None:
        """Empty the slots from `first` on; what is not finite there would spoil every
        sum over keys.
        """
        for stack in self.stacks.values():
            stack[:, batch_slot, :, first:] = 0

    def copy_text(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` slots of batch slot `source` to batch slot `target`."""
        for stack in self.stacks.values():
            stack[:, target, :, :length] = stack[:, source, :, :length]

    def fill_text(
        self, batch_slot: int, states: dict[tuple[int, int], Tensor], first: int, end: int
    ) -> None:
        """Write keys and values, as `text_states` gives them from slot `first` on, to the slots
        before `end` of a batch slot.
        """
        for shape, stack in self.stacks.items():
            stack[:, batch_slot, :, first:end] = states[shape][:, :, : end - first]

    def text_states(self, batch_slot: int, first: int, end: int) -> dict[tuple[int, int], Tensor]:
        """Copies of slots of a batch slot: by (heads, size) [2 * layers, heads, `end - first`,
        size].
        """
        return {
            shape: stack[:, batch_slot, :, first:end].clone()
            for shape, stack in self.stacks.items()
        }

    def copy_from(self, other: "SlotCache", length: int) -> None:
        """Take over the first `length` slots of all texts of a smaller cache of the same layout."""
        for shape, stack in self.stacks.items():
            stack[:, : other.batch_slots, :, :length] = other.stacks[shape][:, :, :, :length]
