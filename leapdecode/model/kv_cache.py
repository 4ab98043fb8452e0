"""A model's cached tokens of several sequences, their trees, and how both are brought to the text.

Shapes: N nodes evaluated of one tree, V vocabulary.
"""

import contextlib
import time

import torch

from leapdecode.core import Commit, Forward, ForwardResult, Sequence
from leapdecode.model.kv_store import CHUNK, SlotCache
from leapdecode.model.masks import RowPlan
from leapdecode.model.prefix_cache import PrefixCache
from leapdecode.model.runner import Launched, Runner
from leapdecode.model.sequence_cache import Room, SequenceCache, common_prefix, deepest_of
from leapdecode.model.tree_check import TreeCheck
from leapdecode.model.waits import Waiting

LONG_PREFIX = 16  # in company, more missing text than this is evaluated before the common forward


def _progress(tokens: int) -> contextlib.AbstractContextManager[Waiting | None]:
    """A block that shows progress where a prompt of so many tokens takes long."""
    if tokens < LONG_PREFIX:
        return contextlib.nullcontext()
    return Waiting(f"evaluating {tokens:,} tokens of a prompt", tokens)


class KVCache:
    """A batch slot for each sequence, with what is cached of it, and forwards in that: ragged rows,
    growing trees, catch-up of missing text.

    Args:
        runner: the model.
        batch_slots: sequences that there is place for, until more are needed.
        slots: tokens per sequence, likewise.
    """

    chunk = CHUNK  # tokens of text in a forward, at most

    def __init__(self, runner: Runner, batch_slots: int, slots: int) -> None:
        self.runner = runner
        self.capacity = batch_slots
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
        cache = self.sequences[sequence.id]
        self.soiled = True
        self.left.clear()
        if not keep_text:
            cache.tokens = []
            cache.agreed = cache.reused = 0
        cache.note_exact(0, [])
        cache.tree = None
        cache.evaluated = 0
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
                cache.batch_slot = alike
                cache.tokens = self.left.pop(alike).tokens
                cache.agreed = cache.reused = shared
                return
            self._keep(alike)
            prefix, length = prefixes.find(text, self._block, cache.salt)
        cache.batch_slot = self._free_slot()
        if prefix is not None and length:
            self._reserve(length)
            for states, first, end in prefix.segments(length):
                self.store.fill_text(cache.batch_slot, states, first, end)
            cache.tokens = text[:length]
            cache.agreed = cache.reused = length

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
        cache = self.sequences[sequence.id]
        text = sequence.tokens[:-1]
        alone = len(self.sequences) == 1 or self.runner.prefixes is None
        if alone or not cache.lacks_prompt:
            return
        sources = [source for source in self.sequences.values() if source.may_have(cache)]
        source = max(sources, key=lambda source: self._shared(source, text))
        length = self._shared(source, text)
        if length <= len(cache.tokens):
            return
        self._reserve(length)
        self.store.copy_text(source.batch_slot, cache.batch_slot, length)
        cache.reused += length - len(cache.tokens)
        cache.tokens = text[:length]
        cache.agreed = length

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

    def _plan(self, request: Forward) -> RowPlan:
        return self.sequences[request.sequence.id].plan(request, self.runner.max_length)

    def _prefill(self, request: Forward, plan: RowPlan, keep: int) -> tuple[int, float]:
        """Evaluate missing text in chunks until at most `keep` rows of it are left.

        Returns the forwards made, and their seconds.
        """
        cache = self.sequences[request.sequence.id]
        forwards = 0
        seconds = 0.0
        with _progress(len(plan.missing) - keep) as wait:
            while len(plan.missing) > keep:
                piece = plan.missing[: self.chunk]
                end = plan.start + len(piece)
                rows = self.runner.padded(len(piece))
                cache.note_exact(0, [])
                cache.prompt_rows = rows
                self._reserve(plan.start + rows)
                chunk = RowPlan(plan.batch_slot, plan.start, end, piece, [], [], [], [])
                seconds += self.runner.call([chunk], self.store, rows)[1]
                cache.tokens += piece
                plan.start = end
                plan.missing = plan.missing[len(piece) :]
                forwards += 1
                if wait is not None:
                    wait.advance(len(piece))
        return forwards, seconds

    def lacks(self, sequence: Sequence) -> bool:
        """Whether so much text is missing that it is evaluated before a batch's common forward."""
        base = len(sequence.tokens) - 1
        if deepest_of(sequence, base, self.runner.max_length) < 0:
            return False  # a draft whose context is full evaluates nothing more
        missing = base - len(self.sequences[sequence.id].tokens)
        return missing > (LONG_PREFIX if self.runner.exact is None else 0)

    @torch.inference_mode()
    def prefill(self, request: Forward) -> tuple[int, float]:
        """Evaluate one chunk of the missing text; returns its tokens and its seconds."""
        plan = self._plan(request)
        before = len(plan.missing)
        _, seconds = self._prefill(request, plan, max(before - self.chunk, 0))
        return before - len(plan.missing), seconds

    @torch.inference_mode()
    def forward(self, requests: list[Forward]) -> list[ForwardResult]:
        """Evaluate the requests' new nodes, in one batch where that is allowed.

        Missing text goes first, alone.

        A batch is in the order of batch slots, whatever the requests' order: those in use adjoin,
        so the model sees views of the cache instead of copies.
        """
        results = dict[int, ForwardResult]()
        exact = self.runner.exact
        compiled = self.runner.compiled
        in_order = sorted(requests, key=self._batch_slot)
        for batch in exact.split(in_order, compiled) if exact else [in_order]:
            for request, result in zip(batch, self._forward(batch), strict=True):
                results[request.sequence.id] = result
        return [results[request.sequence.id] for request in requests]

    def _may_stay(self, plan: RowPlan, requests: list[Forward], number: int) -> int:
        """How many rows of missing text may stay for the common forward.

        Under exact decoding none: every prompt is cached by the same forwards, whatever comes
        behind it. None either where a later one of the batch takes them over.
        """
        if self.runner.exact is not None:
            return 0
        if len(requests) == 1:
            return max(self.chunk - len(plan.nodes), 0)
        if self.runner.prefixes is None or not plan.missing:
            return LONG_PREFIX
        text = requests[number].sequence.tokens[:-1]
        length = plan.start + 1
        cache = self.sequences[requests[number].sequence.id]
        taking = any(
            self.sequences[later.sequence.id].lacks_prompt
            and self.sequences[later.sequence.id].may_have(cache)
            and common_prefix(later.sequence.tokens[:-1], text) >= length
            for later in requests[number + 1 :]
        )
        return 0 if taking else LONG_PREFIX

    def _forward(self, requests: list[Forward]) -> list[ForwardResult]:
        plans = list[RowPlan]()
        planned_rows = list[int]()
        prefills = list[tuple[int, float]]()  # forwards and their seconds
        for number, request in enumerate(requests):
            self.share(request.sequence)
            plan = self._plan(request)
            plans.append(plan)
            planned_rows.append(plan.count)
            prefills.append(self._prefill(request, plan, self._may_stay(plan, requests, number)))
        rows = self.runner.padded(max(plan.count for plan in plans), len(plans))
        self._reserve(max(plan.end + rows - plan.count for plan in plans))
        texts = [self.sequences[request.sequence.id] for request in requests]
        check = None
        checked = self.runner.check
        # what a draft gives are guesses
        if checked is not None and rows and requests[0].model == "target":
            check = TreeCheck(self.runner, checked)
            check.expect(requests, plans, texts, self.chunk)
        with _progress(sum(len(plan.missing) for plan in plans)):
            launched = self.runner.launch(plans, self.store, rows) if rows else self._nothing(plans)
            logits, seconds = launched.wait()
        offset = min(len(plan.missing) for plan in plans)
        firsts = [len(plan.missing) - offset for plan in plans]
        logits_of_nodes = [
            logits_RV[first : first + len(plan.nodes)]
            for logits_RV, first, plan in zip(logits, firsts, plans, strict=True)
        ]
        if check is not None:
            check.look(self.store, requests, plans, logits_of_nodes, rows)
        results = list[ForwardResult]()
        for number, (request, plan) in enumerate(zip(requests, plans, strict=True)):
            cache = texts[number]
            logits_NV = logits_of_nodes[number]
            cache.tokens += plan.missing
            cache.evaluated = len(request.tree)
            if plan.missing:
                cache.note_exact(0, [])
            cache.shown = dict(zip(plan.nodes, logits_NV, strict=True)) if self.runner.exact else {}
            forwards, prefill_seconds = prefills[number]
            text = request.sequence.tokens
            context = (
                text if plan.base == len(text) - 1 else [*cache.tokens, request.tree.tokens[0]]
            )
            times = (forwards, seconds / len(plans), prefill_seconds)
            rows_before = planned_rows[number]
            results.append(
                ForwardResult(logits_NV, plan.nodes, context, rows_before, plan.count, *times)
            )
        return results

    def _nothing(self, plans: list[RowPlan]) -> Launched:
        """The logits of no rows."""
        runner = self.runner
        logits = torch.zeros(len(plans), 0, runner.vocabulary, device=runner.device)
        return Launched(logits, time.perf_counter())

    def _batch_slot(self, request: Forward) -> int:
        return self.sequences[request.sequence.id].batch_slot

    def commit(self, requests: list[Commit]) -> None:
        """Make each path contiguous behind its cache (a chain moves nothing); drop other nodes."""
        moves = []
        for request in requests:
            cache = self.sequences[request.sequence.id]
            tree = cache.tree
            base = len(cache.tokens)
            assert tree is not None, "a commit follows a forward"
            wrong = [(node, place) for place, node in enumerate(request.path) if node != place]
            if wrong:
                sources = [base + node for node, _ in wrong]
                places = [base + place for _, place in wrong]
                moves.append((cache.batch_slot, sources, places))
            cache.tokens += [tree.tokens[node] for node in request.path]
            if cache.shown and not wrong and not cache.drawn:
                logits = [cache.shown[node].clone() for node in request.path]
                cache.note_exact(len(logits), logits)
            else:
                cache.note_exact(0, [])
            cache.tree = None
            cache.evaluated = 0
            cache.shown = {}
        if moves:
            with torch.inference_mode():
                self.store.move(moves)

    def follow(self, accepted: Commit) -> None:
        """Bring a draft's cache to the text after the target accepted a path.

        Nodes of the path that the draft evaluated while it grew the tree stay cached; then the
        cache is cut to its longest common prefix with the text, so that its next forward can catch
        up.
        """
        sequence = accepted.sequence
        cache = self.sequences[sequence.id]
        tree, path = accepted.guessed or (None, [])
        if tree is not None and cache.tree is tree:
            deepest = deepest_of(sequence, len(cache.tokens), self.runner.max_length)
            known = [
                node for node in path if node < cache.evaluated and tree.depths[node] <= deepest
            ]
            self.commit([Commit(accepted.model, sequence, known)])
        cache.cut(sequence.tokens[:-1])
