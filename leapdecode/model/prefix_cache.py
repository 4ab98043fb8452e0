"""Keys and values of texts that have ended, for later texts that begin with the same tokens.

Shapes: L layers of equal heads and sizes (keys and values apart), H heads, S tokens, D head size.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from leapdecode.model.kv_store import SlotCache
from leapdecode.model.memory import CacheMemory
from leapdecode.model.sequence_cache import common_prefix

SHARE = 0.5  # of the cache memory, at most


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """A text's tokens, and by (heads, size) their keys and values [L, H, S, D]."""

    tokens: list[int]
    states: dict[tuple[int, int], Tensor]

    @property
    def bytes(self) -> int:
        return sum(stack.nbytes for stack in self.states.values())


class PrefixCache:
    """What a model has cached of texts that have ended; that which was longest unused goes first.

    Args:
        memory: what it may take is at most `SHARE` of the limit, and what engines leave.
    """

    def __init__(self, memory: CacheMemory) -> None:
        self.memory = memory
        self.prefixes: list[Prefix] = []  # the last used one is last
        self.kept_bytes = 0
        memory.keepers.append(self)

    @torch.inference_mode()
    def keep(self, tokens: list[int], store: SlotCache, batch_slot: int) -> None:
        """Copy the first slots of a batch slot, one per token, unless they are kept already."""
        size = store.layout.bytes_per_token * len(tokens)
        room = self.memory.room()
        most = None if room is None else min(room, int(SHARE * (self.memory.limit or 0)))
        if not tokens or (most is not None and size > most):
            return
        shared = [common_prefix(known.tokens, tokens) for known in self.prefixes]
        if len(tokens) in shared:
            self._use(self.prefixes[shared.index(len(tokens))])
            return
        for known, length in zip(list(self.prefixes), shared, strict=True):
            if length == len(known.tokens):
                self._drop(known)
        if most is not None:
            self.shrink(most - size)
        self.prefixes.append(Prefix(list(tokens), store.text_states(batch_slot, len(tokens))))
        self.kept_bytes += self.prefixes[-1].bytes

    def find(self, tokens: list[int], block: int = 1) -> tuple[Prefix | None, int]:
        """What is kept of the longest prefix of `tokens`, and how many of its tokens are theirs, in
        whole blocks.
        """
        alike = [known for known in self.prefixes if known.tokens[:1] == tokens[:1]]
        if not alike:
            return None, 0
        shared = [common_prefix(known.tokens, tokens) for known in alike]
        best = alike[shared.index(max(shared))]
        self._use(best)
        return best, max(shared) // block * block

    def shrink(self, size: int) -> None:
        """Drop what was longest unused until no more than `size` bytes are kept."""
        while self.prefixes and self.kept_bytes > size:
            self._drop(self.prefixes[0])

    def _use(self, prefix: Prefix) -> None:
        self.prefixes.remove(prefix)
        self.prefixes.append(prefix)

    def _drop(self, prefix: Prefix) -> None:
        self.prefixes.remove(prefix)
        self.kept_bytes -= prefix.bytes


def keep_caches(
    runners: Iterable[Any], memory: CacheMemory, prefix_cache: bool
) -> list[PrefixCache]:
    """Let models keep their spare caches within `memory`, and with `prefix_cache` what texts leave.

    Returns the prefix caches.
    """
    made = []
    for runner in runners:
        if isinstance(getattr(runner, "spare", None), list):
            runner.prefixes = None
            if prefix_cache:
                runner.prefixes = PrefixCache(memory)
                made.append(runner.prefixes)
            memory.keepers.append(runner)
    return made
