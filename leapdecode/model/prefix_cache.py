"""Keys and values of texts that have ended, for later texts that begin with the same tokens.

Shapes: L layers of equal heads and sizes (keys and values apart), H heads, S tokens, D head size.
"""

from __future__ import annotations

import bisect
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from leapdecode.model.kv_store import SlotCache
from leapdecode.model.memory import CacheMemory
from leapdecode.model.sequence_cache import common_prefix

SHARE = 0.5  # of the cache memory, at most


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """A text's tokens, and by (heads, size) keys and values [L, H, S, D] of those from `start` on.

    Those before are its `parent`'s, a text of the same salt that begins alike.
    """

    tokens: list[int]
    states: dict[tuple[int, int], Tensor]
    parent: Prefix | None = None
    start: int = 0
    salt: str = ""

    @property
    def place(self) -> tuple[str, list[int]]:
        """Where it stands among all in alphabetical order."""
        return self.salt, self.tokens

    @property
    def bytes(self) -> int:
        return sum(stack.nbytes for stack in self.states.values())

    def family(self) -> Iterator[Prefix]:
        """This one, its parent, and so on."""
        prefix: Prefix | None = self
        while prefix is not None:
            yield prefix
            prefix = prefix.parent

    def segments(self, length: int) -> Iterator[tuple[dict[tuple[int, int], Tensor], int, int]]:
        """Where keys and values of the first `length` tokens are: (states, first token, end)."""
        for prefix in self.family():
            if prefix.start < length:
                yield prefix.states, prefix.start, length
            length = min(length, prefix.start)


class PrefixCache:
    """What a model has cached of texts that have ended; that which was longest unused goes first.

    What texts have in common stands there once. A text's parent is always used later than it, so
    what was longest unused is nobody's parent. Texts of different salts have nothing in common.

    Args:
        memory: what it may take is at most `SHARE` of the limit, and what engines leave.
    """

    def __init__(self, memory: CacheMemory) -> None:
        self.memory = memory
        self.prefixes: OrderedDict[Prefix, None] = OrderedDict()  # the last used one is last
        self.ordered: list[Prefix] = []  # by salt and tokens: those that begin alike are neighbours
        self.kept_bytes = 0
        self.resets = 0  # times that everything was forgotten
        memory.keepers.append(self)

    @torch.inference_mode()
    def keep(
        self,
        tokens: list[int],
        store: SlotCache,
        batch_slot: int,
        block: int = 1,
        salt: str = "",
    ) -> None:
        """Copy the first slots of a batch slot, one per token, but those that are kept already, in
        whole blocks.
        """
        if not tokens:
            return
        parent, shared = self.find(tokens, block, salt)
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
        prefix = Prefix(list(tokens), states, parent, shared, salt)
        self.prefixes[prefix] = None
        bisect.insort(self.ordered, prefix, key=lambda prefix: prefix.place)
        self.kept_bytes += prefix.bytes
        self._use(prefix)

    def find(self, tokens: list[int], block: int = 1, salt: str = "") -> tuple[Prefix | None, int]:
        """What is kept of the longest prefix of `tokens` under that salt, and how many of its
        tokens are theirs, in whole blocks.

        It is one of the two between which `tokens` would stand in alphabetical order.
        """
        place = bisect.bisect_left(self.ordered, (salt, tokens), key=lambda prefix: prefix.place)
        near = [
            (common_prefix(prefix.tokens, tokens), prefix)
            for prefix in self.ordered[max(place - 1, 0) : place + 1]
            if prefix.salt == salt
        ]
        shared, best = max(near, key=lambda pair: pair[0], default=(0, None))
        if best is None or not shared:
            return None, 0
        self._use(best)
        return best, shared // block * block

    def shrink(self, size: int) -> None:
        """Drop what was longest unused until no more than `size` bytes are kept."""
        while self.prefixes and self.kept_bytes > size:
            self._drop(next(iter(self.prefixes)))

    def reset(self) -> None:
        """Forget everything; what texts left in batch slots, too."""
        self.resets += 1
        self.shrink(0)

    def _use(self, prefix: Prefix) -> None:
        for member in prefix.family():
            self.prefixes.move_to_end(member)

    def _drop(self, prefix: Prefix) -> None:
        del self.prefixes[prefix]
        place = bisect.bisect_left(self.ordered, prefix.place, key=lambda prefix: prefix.place)
        while self.ordered[place] is not prefix:
            place += 1
        del self.ordered[place]
        self.kept_bytes -= prefix.bytes
