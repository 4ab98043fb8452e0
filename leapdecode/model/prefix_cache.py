"""Keys and values of texts that have ended, for later texts that begin with the same tokens.

Shapes: L layers of equal heads and sizes (keys and values apart), H heads, S tokens, D head size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    """A text's tokens, and by (heads, size) keys and values [L, H, S, D] of those from `start` on.

    Those before are its `parent`'s, a text that begins alike.
    """

    tokens: list[int]
    states: dict[tuple[int, int], Tensor]
    parent: Prefix | None = None
    start: int = 0

    @property
    def bytes(self) -> int:
        return sum(stack.nbytes for stack in self.states.values())

    def family(self) -> Iterator[Prefix]:
        """This one, its parent, and so on."""
        one: Prefix | None = self
        while one is not None:
            yield one
            one = one.parent

    def segments(self, length: int) -> Iterator[tuple[dict[tuple[int, int], Tensor], int, int]]:
        """Where keys and values of the first `length` tokens are: (states, first token, end)."""
        for one in self.family():
            if one.start < length:
                yield one.states, one.start, length
            length = min(length, one.start)


class PrefixCache:
    """What a model has cached of texts that have ended; that which was longest unused goes first.

    What texts have in common stands there once. A text's parent is always used later than it, so
    what was longest unused is nobody's parent.

    Args:
        memory: what it may take is at most `SHARE` of the limit, and what engines leave.
    """

    def __init__(self, memory: CacheMemory) -> None:
        self.memory = memory
        self.prefixes: list[Prefix] = []  # the last used one is last
        self.kept_bytes = 0
        self.resets = 0  # times that everything was forgotten
        memory.keepers.append(self)

    @torch.inference_mode()
    def keep(self, tokens: list[int], store: SlotCache, batch_slot: int, block: int = 1) -> None:
        """Copy the first slots of a batch slot, one per token, but those that are kept already, in
        whole blocks.
        """
        if not tokens:
            return
        parent, shared = self.find(tokens, block)
        if shared == len(tokens):
            return
        size = store.layout.bytes_per_token * (len(tokens) - shared)
        room = self.memory.room()
        most = None if room is None else min(room, int(SHARE * (self.memory.limit or 0)))
        if most is not None and size > most:
            return
        if most is not None:
            self.shrink(most - size)
        if parent is not None and parent not in self.prefixes:
            return  # there was no room for both
        states = store.text_states(batch_slot, shared, len(tokens))
        made = Prefix(list(tokens), states, parent, shared)
        self.prefixes.append(made)
        self.kept_bytes += made.bytes
        self._use(made)

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

    def reset(self) -> None:
        """Forget everything; what texts left in batch slots, too."""
        self.resets += 1
        self.shrink(0)

    def _use(self, prefix: Prefix) -> None:
        for one in prefix.family():
            self.prefixes.remove(one)
            self.prefixes.append(one)

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
