"""Where a grown model holds its source: copies of features, and places of pairs and heads."""

import math
from dataclasses import dataclass

import torch
from shapes import Shape, groups
from torch import Tensor


def split(count: int) -> list[float]:
    """`count` powers of two that sum to 1, as even as can be: products with them are exact in every
    dtype.
    """
    power = 1 << (count.bit_length() - 1)
    halved = count - power
    return [1 / power] * (power - halved) + [0.5 / power] * (2 * halved)


def query_gain(growth: int) -> float:
    """What makes up for attention's division by the square root of a head size grown `growth`
    times.
    """
    return math.sqrt(growth)


@dataclass(frozen=True)
class Width:
    """The residual stream's `hidden` features: copies of the source's, then spare ones that hold a
    constant.
    """

    hidden: int
    source: Tensor  # the source's feature that a copy repeats
    scale: Tensor
    share: Tensor

    @classmethod
    def grown(cls, old: int, hidden: int, reserve: bool, like: Tensor) -> "Width":
        """Copies of `old` features that fill `hidden`; `reserve` leaves at least one spare, at
        feature 0's cost.
        """
        source, scale, share = [], [], []
        for feature in range(old):
            count = hidden // old + (feature < hidden % old)
            scales = [math.sqrt(hidden / (old * count))] * count
            # one copy of scale 2 s has the energy of four of scale s
            if reserve and feature == 0 and count >= 4:
                scales = [2 * scales[0], *scales[4:]]
            elif reserve and feature == 0:
                scales = [math.sqrt(hidden / (old * (count - 1)))] * (count - 1)
            source += [feature] * len(scales)
            scale += scales
            share += split(len(scales))
        return cls(
            hidden,
            torch.tensor(source, device=like.device),
            like.new_tensor(scale),
            like.new_tensor(share),
        )

    @property
    def spare(self) -> int:
        return self.hidden - len(self.source)

    def constant(self, eps: float) -> float:
        """What spare features hold: the largest power of two whose mean square `eps` pays for."""
        return 2.0 ** math.floor(math.log2(math.sqrt(eps * self.hidden / self.spare)))

    def written(self, weight_dN: Tensor) -> Tensor:
        """Rows that write the stream, (d, N) to (D, N)."""
        made = weight_dN.new_zeros(self.hidden, weight_dN.shape[1])
        made[: len(self.source)] = weight_dN[self.source] * self.scale[:, None]
        return made

    def reading(self, weight_Nd: Tensor) -> Tensor:
        """Columns that read the stream, (N, d) to (N, D)."""
        made = weight_Nd.new_zeros(weight_Nd.shape[0], self.hidden)
        made[:, : len(self.source)] = weight_Nd[:, self.source] * self.share
        return made

    def norm(self, weight_d: Tensor, spare: float = 1.0) -> Tensor:
        made = weight_d.new_full((self.hidden,), spare)
        made[: len(self.source)] = weight_d[self.source] / self.scale
        return made


@dataclass(frozen=True)
class Places:
    """Where rows of the source's query, key and value projections go."""

    growth: int
    queries: list[int]
    keys: list[int]
    # the source's rows for `keys`: its heads are repeated where groups are split
    key_source: list[int]

    @classmethod
    def between(cls, old: Shape, new: Shape) -> "Places":
        """Query heads keep their key-value head; a group too large for the new grouping is spread
        over several.
        """
        growth, half = new.head_dim // old.head_dim, old.head_dim // 2
        slots = [growth * j for j in range(half)]
        # a pair is a dimension and the one half a head later
        slots += [new.head_dim // 2 + slot for slot in slots]
        group, new_group, parts = groups(old, new)
        heads = []
        for kv in range(old.kv_heads):
            for member in range(group):
                part, seat = divmod(member, new_group)
                heads.append((kv * parts + part) * new_group + seat)
        kv_heads = range(old.kv_heads * parts)
        return cls(
            growth,
            [head * new.head_dim + slot for head in heads for slot in slots],
            [head * new.head_dim + slot for head in kv_heads for slot in slots],
            [head // parts * old.head_dim + j for head in kv_heads for j in range(old.head_dim)],
        )
