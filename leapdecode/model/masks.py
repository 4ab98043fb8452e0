"""The one mask builder: committed text, plus own ancestors, plus itself.

Masks are additive (0 = visible, the dtype's minimum = hidden): sdpa and eager attention both read
them right. Shapes: B batch rows, R rows evaluated per sequence, S visible slots.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

SHIFTS = torch.arange(8, dtype=torch.uint8)  # bring each bit of a byte to the lowest place


@dataclass(slots=True)
class RowPlan:
    """What one sequence evaluates in a forward: missing text first, then tree nodes.

    `start` is the first slot to fill, `base` the root's slot; text token i goes to slot `start` +
    i, node n to slot `base` + n at position `base` + its depth.
    """

    batch_slot: int
    start: int
    base: int
    missing: list[int]
    nodes: list[int]
    tokens: list[int]
    ancestors: list[int]
    depths: list[int]

    @classmethod
    def chain(cls, batch_slot: int, base: int, tokens: list[int]) -> "RowPlan":
        """A chain of `tokens` behind `base` cached ones."""
        places = [*range(len(tokens))]
        ancestors = [(2 << place) - 1 for place in places]
        return cls(batch_slot, base, base, [], places, tokens, ancestors, places)

    @property
    def count(self) -> int:
        return len(self.missing) + len(self.nodes)

    @property
    def end(self) -> int:
        return self.base + len(self.depths)

    def row_tokens(self) -> list[int]:
        return [*self.missing, *[self.tokens[node] for node in self.nodes]]

    def row_slots(self) -> list[int]:
        return [
            *range(self.start, self.start + len(self.missing)),
            *[self.base + node for node in self.nodes],
        ]

    def row_positions(self) -> list[int]:
        depths, base = self.depths, self.base
        return [
            *range(self.start, self.start + len(self.missing)),
            *[base + depths[node] for node in self.nodes],
        ]


def unpack_bits(rows: list[int], width: int) -> Tensor:
    """Bit sets as a bool tensor [len(rows), width]: bit i of row r at [r, i]."""
    size = -(-width // 8)
    packed = torch.frombuffer(
        bytearray(b"".join(row.to_bytes(size, "little") for row in rows)), dtype=torch.uint8
    )
    bits = packed.view(len(rows), size, 1) >> SHIFTS & 1
    return bits.view(len(rows), -1)[:, :width].bool()


def build_mask(
    plans: list[RowPlan], rows: int, kv_length: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """[B, 1, R, S] additive mask: every row sees the text before it and its own ancestors."""
    hidden = torch.finfo(dtype).min
    mask = torch.full((len(plans), 1, rows, kv_length), hidden, dtype=dtype, device=device)
    for number, plan in enumerate(plans):
        mask_RS, text = mask[number, 0], len(plan.missing)
        mask_RS[text:, : plan.base] = 0
        if text:
            causal = torch.full((text, text), hidden, dtype=dtype, device=device).triu_(1)
            mask_RS[:text, : plan.start] = 0
            mask_RS[:text, plan.start : plan.start + text] = causal
        if plan.nodes == [0]:
            mask_RS[text, plan.base] = 0
        elif plan.nodes:
            width = len(plan.depths)
            visible = unpack_bits([plan.ancestors[node] for node in plan.nodes], width).to(device)
            mask_RS[text : text + len(plan.nodes), plan.base : plan.base + width].masked_fill_(
                visible, 0
            )
    return mask


def windowed(mask: Tensor, plans: list[RowPlan], positions_BR: Tensor, window: int) -> Tensor:
    """The same mask with keys `window` or more positions back hidden as well (sliding-window
    attention).
    """
    if all(plan.end <= window for plan in plans):
        return mask
    kv_length = mask.shape[-1]
    keys_BS = torch.arange(kv_length, device=mask.device).repeat(len(plans), 1)
    for number, plan in enumerate(plans):
        depths = torch.tensor(plan.depths, device=mask.device)
        keys_BS[number, plan.base : plan.end] = plan.base + depths
    too_far = positions_BR[:, :, None] - keys_BS[:, None, :] >= window
    return mask.masked_fill(too_far[:, None], torch.finfo(mask.dtype).min)


class RootMask:
    """The mask of one sequence's root alone, kept from step to step: plain decoding shows one slot
    more each time.

    It is changed in place, so every run needs its own.
    """

    def __init__(self) -> None:
        self.mask, self.shown = torch.zeros(0), 0

    def build(self, base: int, kv_length: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """[1, 1, 1, S] additive mask that shows the slots up to `base`."""
        if (
            self.shown > base
            or self.mask.shape[-1] != kv_length
            or (self.mask.dtype, self.mask.device) != (dtype, device)
        ):
            self.mask = torch.full(
                (1, 1, 1, kv_length), torch.finfo(dtype).min, dtype=dtype, device=device
            )
            self.shown = 0
        self.mask[..., self.shown : base + 1] = 0
        self.shown = base + 1
        return self.mask


@dataclass(frozen=True)
class MaskForm:
    """How a model takes its masks: one tensor, or one per layer type; a window of 0 is full
    attention.
    """

    windows: tuple[tuple[str, int], ...]

    def narrowed(self, size: int) -> "MaskForm":
        """The same form with windows of `size`."""
        return MaskForm(tuple((kind, size if window else 0) for kind, window in self.windows))

    def build(
        self,
        plans: list[RowPlan],
        positions_BR: Tensor,
        kv_length: int,
        dtype: torch.dtype,
        root: RootMask,
    ) -> Tensor | dict[str, Tensor]:
        rows, device = positions_BR.shape[1], positions_BR.device
        alone = len(plans) == 1 and rows == 1 and not plans[0].missing
        full = (
            root.build(plans[0].base, kv_length, dtype, device)
            if alone and plans[0].nodes == [0]
            else build_mask(plans, rows, kv_length, dtype, device)
        )
        made = {
            kind: windowed(full, plans, positions_BR, w) if w else full for kind, w in self.windows
        }
        return made if len(made) > 1 else next(iter(made.values()))
