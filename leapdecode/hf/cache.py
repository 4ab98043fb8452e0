"""The keys and values of finished texts, given back as a cache of transformers.

Shapes: H key/value heads, S slots, D head size.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from leapdecode.core import Sequence
from leapdecode.engine.places import Cache, Model, open_cache
from leapdecode.hf.rows import Row
from leapdecode.model.kv_cache import KVCache
from leapdecode.model.runner import Runner

Layers = list[tuple[Tensor, Tensor]]  # per layer keys and values, [H, S, D] each


class KeptCache(KVCache):
    """A cache that leaves a copy of its keys and values behind."""

    def __init__(
        self, runner: Runner, batch_slots: int, slots: int, kept: dict[int, Layers]
    ) -> None:
        super().__init__(runner, batch_slots, slots)
        self.kept = kept

    def free(self, sequence: Sequence) -> None:
        """Copy what is cached of the text, all but its last token, and free its batch slot."""
        place, end = self.sequences[sequence.id].batch_slot, len(sequence.tokens) - 1
        pairs = [(layer.keys[place], layer.values[place]) for layer in self.store.layers]
        self.kept[sequence.id] = [(k[:, :end].clone(), v[:, :end].clone()) for k, v in pairs]
        super().free(sequence)


class Keeping:
    """Opens caches of a runner that keep what they held."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.kept: dict[int, Layers] = {}

    def open_cache(self, model: Model, batch_slots: int, slots: int) -> Cache:
        """A cache that leaves a copy behind, where it is the runner's."""
        if model is self.runner:
            return KeptCache(self.runner, batch_slots, slots, self.kept)
        return open_cache(model, batch_slots, slots)

    def fill(self, cache: Any, rows: list[Row]) -> bool:
        """Put the rows' keys and values into `cache`; left padding, which the mask hides, is zero.

        False where rows end at different lengths: transformers' cache would then hold padding
        behind the shorter texts, which was never evaluated here.
        """
        if len({row.padding + len(row.sequence.tokens) for row in rows}) > 1:
            return False
        texts = [(row.padding, self.kept.pop(row.sequence.id)) for row in rows]
        for number in range(len(self.runner.layout.keys)):
            keys = [pad(layers[number][0], (0, 0, gap, 0)) for gap, layers in texts]
            values = [pad(layers[number][1], (0, 0, gap, 0)) for gap, layers in texts]
            cache.update(torch.stack(keys), torch.stack(values), number)
        return True
