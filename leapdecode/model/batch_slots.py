"""Where sequences lie in a slot cache: batch slots are taken and given back, slots added."""

import torch

from leapdecode.core import Sequence
from leapdecode.model.kv_store import CHUNK, SlotCache
from leapdecode.model.prefix_cache import PrefixCache
from leapdecode.model.runner import Runner
from leapdecode.model.sequence_cache import Room, SequenceCache, common_prefix


class BatchSlots:
    """A batch slot of the cache for each sequence, with what is cached of it.

    Args:
        runner: the model.
        batch_slots: sequences that there is place for, until more are needed.
        slots: tokens per sequence, likewise.
    """

    chunk = CHUNK  # tokens of text in a forward, at most

    def __init__(self, runner: Runner, batch_slots: int, slots: int) -> None:
        self.runner, self.capacity = runner, batch_slots
        self.store = runner.cache(batch_slots, slots)
        self.sequences: dict[int, SequenceCache] = {}
        # of texts that have ended, by batch slot, until the slot is needed; the oldest is first
        self.left: dict[int, SequenceCache] = {}
        # values that are not finite were written, and may still stand somewhere
        self.soiled = False
        self.most_slots = 0  # what the texts can need in the end: growth by doubling stops there

    def close(self) -> None:
        if self.soiled:
            return
        for batch_slot in list(self.left):
            self._keep(batch_slot)
        self.runner.release(self.store)

    def clean(self, sequence: Sequence, keep_text: bool) -> None:
        """Empty what stands behind `sequence`'s text, or its whole batch slot.

        What is not finite there reaches rows that it is hidden from: a weight of 0 times infinity
        is not 0.
        """
        cache, self.soiled = self.sequences[sequence.id], True
        self.left.clear()
        if not keep_text:
            cache.tokens, cache.agreed, cache.reused = [], 0, 0
        cache.note_exact(0, [])
        cache.tree, cache.evaluated = None, 0
        with torch.inference_mode():
            self.store.clean(cache.batch_slot, len(cache.tokens))

    @property
    def room(self) -> Room:
        return Room(self.capacity, self.store.slots)

    def expect(self, room: Room) -> None:
        """Make place for so many sequences; slots are added by doubling, up to those of `room`."""
        self.most_slots = self.runner.bucketed(room.slots)
        if room.batch_slots > self.capacity:
            self.capacity = room.batch_slots
            self._replace(self.store.slots)

    def allocate(self, sequence: Sequence) -> None:
        """Give `sequence` a cache, with more batch slots where all are taken.

        It starts with what is kept of an earlier text that began alike.
        """
        if len(self.sequences) == self.capacity:
            self.expect(Room(2 * self.capacity, self.most_slots))
        cache = SequenceCache(
            0,
            salt=sequence.cache_salt,
            prompt_length=sequence.prompt_length,
            drawn=sequence.samples_drafts,
            changes=self.runner.changes,
        )
        if self.runner.prefixes is not None:
            cache.resets = self.runner.prefixes.resets
            self._start(self.runner.prefixes, sequence.tokens[:-1], cache)
        else:
            cache.batch_slot = self._free_slot()
        self.sequences[sequence.id] = cache

    @torch.inference_mode()
    def _start(self, prefixes: PrefixCache, text: list[int], cache: SequenceCache) -> None:
        """Give a cache its batch slot, and in it what an earlier text that began like `text` has
        cached; `text` lacks the last token, which is always evaluated.

        A text that goes on where another ended takes that one's batch slot as it is.
        """
        if self.soiled:
            self.left.clear()
        for slot in [slot for slot, left in self.left.items() if left.resets != prefixes.resets]:
            del self.left[slot]
        prefix, length = prefixes.find(text, self._block, cache.salt)
        shared, alike = max(
            (
                (common_prefix(left.tokens, text), slot)
                for slot, left in self.left.items()
                if left.salt == cache.salt
            ),
            default=(0, -1),
        )
        if shared > length:
            if shared == len(self.left[alike].tokens):
                cache.batch_slot, cache.tokens = alike, self.left.pop(alike).tokens
                cache.agreed = cache.reused = shared
                return
            self._keep(alike)
            prefix, length = prefixes.find(text, self._block, cache.salt)
        cache.batch_slot = self._free_slot()
        if prefix is not None and length:
            self._reserve(length)
            for states, first, end in prefix.segments(length):
                self.store.fill_text(cache.batch_slot, states, first, end)
            cache.tokens, cache.agreed, cache.reused = text[:length], length, length

    def _free_slot(self) -> int:
        """A batch slot that no sequence has; one with a text only where there is no other."""
        taken = {cache.batch_slot for cache in self.sequences.values()}
        free = [slot for slot in range(self.capacity) if slot not in taken]
        empty = [slot for slot in free if slot not in self.left]
        if empty:
            return empty[0]
        oldest = next(iter(self.left))
        self._keep(oldest)
        return oldest

    @property
    def _block(self) -> int:
        """Cached tokens pass from text to text in blocks of so many."""
        exact = self.runner.exact
        return 1 if exact is None or exact.any_prefix else self.chunk

    def _keep(self, batch_slot: int) -> None:
        """Keep what a text left in a batch slot: later texts may start with it."""
        left = self.left.pop(batch_slot)
        assert self.runner.prefixes is not None, "texts leave nothing where nothing is kept"
        if left.resets == self.runner.prefixes.resets:
            self.runner.prefixes.keep(left.tokens, self.store, batch_slot, self._block, left.salt)

    def free(self, sequence: Sequence) -> None:
        """Drop a sequence's cache; what may be passed on stays in its batch slot for now."""
        dropped = self.sequences.pop(sequence.id)
        if self.runner.prefixes is None or self.soiled or sequence.finish_reason == "error":
            return
        if dropped.resets != self.runner.prefixes.resets:
            return  # its beginning may be of other weights
        length = self._passed_on(dropped, common_prefix(dropped.tokens, sequence.tokens))
        if length:
            self.left[dropped.batch_slot] = SequenceCache(
                dropped.batch_slot,
                dropped.tokens[:length],
                salt=dropped.salt,
                resets=dropped.resets,
            )

    def compact(self) -> None:
        """Move texts so that batch slots in use adjoin, and the model sees views of the cache."""
        for gap in range(len(self.sequences)):
            last = max(self.sequences.values(), key=lambda cache: cache.batch_slot)
            if last.batch_slot < len(self.sequences):
                return
            if all(cache.batch_slot != gap for cache in self.sequences.values()):
                if gap in self.left:
                    self._keep(gap)
                self._copy(last, gap)
                last.batch_slot = gap

    @torch.inference_mode()
    def share(self, sequence: Sequence) -> None:
        """Copy what another text here has cached of `sequence`'s prompt, so that it is computed
        once, whoever asks first.
        """
        own, text = self.sequences[sequence.id], sequence.tokens[:-1]
        alone = len(self.sequences) == 1 or self.runner.prefixes is None
        if alone or not own.lacks_prompt:
            return
        others = [other for other in self.sequences.values() if other.may_have(own)]
        source = max(others, key=lambda other: self._shared(other, text))
        length = self._shared(source, text)
        if length <= len(own.tokens):
            return
        self._reserve(length)
        self.store.copy_text(source.batch_slot, own.batch_slot, length)
        own.reused += length - len(own.tokens)
        own.tokens, own.agreed = text[:length], length

    def _shared(self, cache: SequenceCache, text: list[int]) -> int:
        """How many tokens of `text` may be taken from another text's `cache`."""
        return self._passed_on(cache, common_prefix(cache.tokens, text))

    def _passed_on(self, cache: SequenceCache, length: int) -> int:
        """How many of the first `length` cached tokens other texts may have.

        Under exact decoding those that their own prompts' forwards would cache alike: everything
        where forwards of text are of the same class as those of trees and the text is decoded
        exactly, else the prompt's whole chunks.
        """
        if self._block > 1 or (self.runner.exact is not None and cache.drawn):
            length = min(length, cache.prompt_length - 1)
        return length // self._block * self._block

    def reused(self, sequence: Sequence) -> int:
        """How many tokens of its prompt were computed for other texts."""
        return self.sequences[sequence.id].reused

    @torch.inference_mode()
    def _copy(self, cache: SequenceCache, batch_slot: int) -> None:
        self.store.copy_text(
            cache.batch_slot, batch_slot, len(cache.tokens) + (len(cache.tree) if cache.tree else 0)
        )

    def _reserve(self, slots: int) -> None:
        if slots > self.store.slots:
            doubled = 2 * self.store.slots
            self._replace(
                self.runner.bucketed(max(slots, min(doubled, self.most_slots or doubled)))
            )

    @torch.inference_mode()
    def _replace(self, slots: int) -> None:
        """Go on in a cache of `capacity` batch slots of `slots` slots."""
        larger = SlotCache(self.runner.layout, self.capacity, slots)
        larger.copy_from(self.store, self.store.slots)
        if larger.layout.device.type == "cuda":  # the old one was another stream's
            torch.cuda.current_stream(larger.layout.device).synchronize()
        self.store = larger
