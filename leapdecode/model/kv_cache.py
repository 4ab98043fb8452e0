"""A model's cached tokens of several sequences, their trees, and how both are brought to the text.

Shapes: B sequences in the forward, R rows of the longest of them, N nodes evaluated of one tree, V
vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from leapdecode.core import Commit, Forward, ForwardResult, Sequence
from leapdecode.model.kv_store import CHUNK, SlotCache
from leapdecode.model.masks import RowPlan
from leapdecode.model.prefix_cache import PrefixCache
from leapdecode.model.sequence_cache import Room, SequenceCache, common_prefix, deepest_of

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

LONG_PREFIX = 16  # in company, more missing text than this is evaluated before the common forward


class KVCache:
    """Sequences in a slot cache: ragged rows, trees that grow over several forwards, catch-up of
    missing text.
    """

    def __init__(self, runner: Runner, rows: int, slots: int) -> None:
        self.runner, self.capacity = runner, rows
        self.store = runner.cache(rows, slots)
        self.sequences: dict[int, SequenceCache] = {}
        # values that are not finite were written, and may still stand somewhere
        self.soiled = False
        self.most_slots = 0  # what the texts can need in the end: growth by doubling stops there

    def close(self) -> None:
        if not self.soiled:
            self.runner.release(self.store)

    def clean(self, sequence: Sequence, keep_text: bool) -> None:
        """Empty what stands behind `sequence`'s text, or its whole row.

        What is not finite there reaches rows that it is hidden from: a weight of 0 times infinity
        is not 0.
        """
        cache, self.soiled = self.sequences[sequence.id], True
        if not keep_text:
            cache.tokens, cache.agreed = [], 0
        cache.tree, cache.evaluated = None, 0
        with torch.inference_mode():
            self.store.clean(cache.row, len(cache.tokens))

    @property
    def room(self) -> Room:
        return Room(self.capacity, self.store.slots)

    def expect(self, room: Room) -> None:
        """Make place for so many sequences; slots are added as texts grow, by doubling, up to those
        of `room`.
        """
        self.most_slots = self.runner.bucketed(room.slots)
        if room.rows > self.capacity:
            self.capacity = room.rows
            self._replace(self.store.slots)

    def allocate(self, sequence: Sequence) -> int:
        """Give `sequence` a cache, with more rows where all are taken.

        Returns how many tokens it starts with, of an earlier text that began alike.
        """
        taken = {cache.row for cache in self.sequences.values()}
        if len(taken) == self.capacity:
            self.expect(Room(2 * self.capacity, self.most_slots))
        cache = SequenceCache(min(set(range(self.capacity)) - taken))
        self.sequences[sequence.id] = cache
        if self.runner.prefixes is not None:
            self._reuse(self.runner.prefixes, sequence, cache)
        return len(cache.tokens)

    @torch.inference_mode()
    def _reuse(self, prefixes: PrefixCache, sequence: Sequence, cache: SequenceCache) -> None:
        """Start with the cached tokens of an earlier text; the last token is always evaluated."""
        text = sequence.tokens[:-1]
        prefix, length = prefixes.find(text, self._block)
        if prefix is not None and length:
            self._reserve(length)
            self.store.fill_row(cache.row, prefix.states, length)
            cache.tokens, cache.agreed = text[:length], length

    @property
    def _block(self) -> int:
        """Cached tokens pass from text to text in blocks of so many."""
        exact = self.runner.exact
        return 1 if exact is None or exact.any_prefix else CHUNK

    def _keep(self, prefixes: PrefixCache, sequence: Sequence, cache: SequenceCache) -> None:
        """Keep what later texts may start with.

        Under exact decoding that is what their own prompts' forwards would cache: everything where
        forwards of text are of the same class as those of trees, else the prompt's whole chunks.
        """
        length = common_prefix(cache.tokens, sequence.tokens)
        if self._block > 1:
            length = min(length, sequence.prompt_length - 1) // self._block * self._block
        prefixes.keep(cache.tokens[:length], self.store, cache.row)

    def free(self, sequence: Sequence) -> None:
        """Drop the cache; the last row moves into the gap, so that rows in use stay adjoining."""
        dropped = self.sequences.pop(sequence.id)
        if (
            self.runner.prefixes is not None
            and not self.soiled
            and sequence.finish_reason != "error"
        ):
            self._keep(self.runner.prefixes, sequence, dropped)
        gap = dropped.row
        last = max(self.sequences.values(), key=lambda cache: cache.row, default=None)
        if last is not None and last.row > gap:
            self._copy(last, gap)
            last.row = gap

    def fork(self, source: Sequence, target: Sequence) -> int:
        """Start `target`'s cache with what `source`'s cache shares with its text; returns the
        shared length.
        """
        cache, new = self.sequences[source.id], self.sequences[target.id]
        shared = common_prefix(cache.tokens, target.tokens[:-1])
        with torch.inference_mode():
            self.store.copy_row(cache.row, new.row, shared)
        new.tokens, new.tree, new.agreed = cache.tokens[:shared], None, shared
        return shared

    @torch.inference_mode()
    def _copy(self, cache: SequenceCache, row: int) -> None:
        self.store.copy_row(
            cache.row, row, len(cache.tokens) + (len(cache.tree) if cache.tree else 0)
        )

    def _reserve(self, slots: int) -> None:
        if slots > self.store.slots:
            doubled = 2 * self.store.slots
            self._replace(
                self.runner.bucketed(max(slots, min(doubled, self.most_slots or doubled)))
            )

    @torch.inference_mode()
    def _replace(self, slots: int) -> None:
        """Go on in a cache of `capacity` rows of `slots` slots."""
        larger = SlotCache(self.runner.layout, self.capacity, slots)
        larger.copy_from(self.store, self.store.slots)
        self.store = larger

    def _plan(self, request: Forward) -> RowPlan:
        return self.sequences[request.sequence.id].plan(request, self.runner.max_length)

    def _prefill(self, request: Forward, plan: RowPlan, keep: int) -> tuple[int, float]:
        """Evaluate missing text in chunks until at most `keep` rows of it are left; forwards made
        and their time.
        """
        cache, forwards, seconds = self.sequences[request.sequence.id], 0, 0.0
        while len(plan.missing) > keep:
            piece = plan.missing[:CHUNK]
            end, rows = plan.start + len(piece), self.runner.padded(len(piece))
            self._reserve(plan.start + rows)
            chunk = RowPlan(plan.row, plan.start, end, piece, [], [], [], [])
            seconds += self.runner.call([chunk], self.store, rows)[1]
            cache.tokens += piece
            plan.start, plan.missing = end, plan.missing[len(piece) :]
            forwards += 1
        return forwards, seconds

    def lacks(self, sequence: Sequence) -> bool:
        """Whether so much of the text is missing that it is evaluated before the common forward of
        a batch.
        """
        missing = len(sequence.tokens) - 1 - len(self.sequences[sequence.id].tokens)
        return missing > (LONG_PREFIX if self.runner.exact is None else 0)

    @torch.inference_mode()
    def prefill(self, request: Forward) -> tuple[int, float]:
        """Evaluate one chunk of the missing text; returns its tokens and its seconds."""
        plan = self._plan(request)
        before = len(plan.missing)
        _, seconds = self._prefill(request, plan, max(before - CHUNK, 0))
        return before - len(plan.missing), seconds

    @torch.inference_mode()
    def forward(self, requests: list[Forward]) -> list[ForwardResult]:
        """Evaluate the requests' new nodes, in one batch where that is allowed; missing text goes
        first, alone.

        A batch is in the order of cache rows, whatever the requests' order: rows in use adjoin, so
        the model sees views of the cache instead of copies.
        """
        answers, exact, compiled = (
            dict[int, ForwardResult](),
            self.runner.exact,
            self.runner.compiled is not None,
        )
        in_order = sorted(requests, key=self._row)
        for batch in exact.batches(in_order, compiled) if exact else [in_order]:
            for request, found in zip(batch, self._forward(batch), strict=True):
                answers[request.sequence.id] = found
        return [answers[request.sequence.id] for request in requests]

    def _kept(self, plan: RowPlan, alone: bool) -> int:
        """How many rows of missing text may stay for the common forward.

        Under exact decoding none: every prompt is cached by the same forwards, whatever comes
        behind it.
        """
        if self.runner.exact is not None:
            return 0
        return max(CHUNK - len(plan.nodes), 0) if alone else LONG_PREFIX

    def _forward(self, requests: list[Forward]) -> list[ForwardResult]:
        plans = [self._plan(request) for request in requests]
        before = [plan.count for plan in plans]
        alone = len(plans) == 1
        extra = [
            self._prefill(request, plan, self._kept(plan, alone))
            for request, plan in zip(requests, plans, strict=True)
        ]
        rows = self.runner.padded(max(plan.count for plan in plans))
        self._reserve(max(plan.end + rows - plan.count for plan in plans))
        none = torch.zeros(len(plans), 0, self.runner.vocabulary, device=self.runner.device)
        logits, seconds = self.runner.call(plans, self.store, rows) if rows else (none, 0.0)
        offset = min(len(plan.missing) for plan in plans)
        answers = list[ForwardResult]()
        for number, (request, plan) in enumerate(zip(requests, plans, strict=True)):
            cache, first = self.sequences[request.sequence.id], len(plan.missing) - offset
            cache.tokens += plan.missing
            cache.evaluated = len(request.tree)
            logits_NV = logits[number, first : first + len(plan.nodes)]
            forwards, prefill_seconds = extra[number]
            text = request.sequence.tokens
            context = (
                text if plan.base == len(text) - 1 else [*cache.tokens, request.tree.tokens[0]]
            )
            times = (forwards, seconds / len(plans), prefill_seconds)
            answers.append(
                ForwardResult(logits_NV, plan.nodes, context, before[number], plan.count, *times)
            )
        return answers

    def _row(self, request: Forward) -> int:
        return self.sequences[request.sequence.id].row

    def commit(self, requests: list[Commit]) -> None:
        """Make each path contiguous behind its cache (a chain moves nothing) and forget the rest of
        the tree.
        """
        moves = []
        for request in requests:
            cache = self.sequences[request.sequence.id]
            tree, base = cache.tree, len(cache.tokens)
            assert tree is not None, "a commit follows a forward"
            wrong = [(node, place) for place, node in enumerate(request.path) if node != place]
            if wrong:
                moves.append(
                    (
                        cache.row,
                        [base + node for node, _ in wrong],
                        [base + place for _, place in wrong],
                    )
                )
            cache.tokens += [tree.tokens[node] for node in request.path]
            cache.tree, cache.evaluated = None, 0
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
