"""A model's cached tokens of several sequences, their trees, and how both are brought to the text.

Shapes: B sequences in the forward, R rows of the longest of them, N nodes evaluated of one tree, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from leapdecode.core import Commit, Forward, ForwardResult, Sequence
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.masks import RowPlan
from leapdecode.model.sequence_cache import SequenceCache, common_prefix

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

CHUNK = 512  # rows of a prefill forward: its mask is [CHUNK, slots], never [n, n]
LONG_PREFIX = 16  # in company, more missing text than this is evaluated before the common forward


class KVCache:
    """Sequences in a slot cache: ragged rows, trees that grow over several forwards, catch-up of missing text."""

    def __init__(self, runner: Runner, rows: int, slots: int) -> None:
        self.runner, self.capacity = runner, rows
        self.store = runner.cache(rows, slots)
        self.sequences: dict[int, SequenceCache] = {}
        self.soiled = False  # values that are not finite were written, and may still stand somewhere

    def close(self) -> None:
        if not self.soiled:
            self.runner.release(self.store)

    def clean(self, sequence: Sequence, keep_text: bool) -> None:
        """Empty what stands behind `sequence`'s text, or its whole row.

        What is not finite there reaches rows that it is hidden from: a weight of 0 times infinity is not 0.
        """
        cache, self.soiled = self.sequences[sequence.id], True
        if not keep_text:
            cache.tokens, cache.agreed = [], 0
        cache.tree, cache.evaluated = None, 0
        with torch.inference_mode():
            self.store.clean(cache.row, len(cache.tokens))

    def allocate(self, sequence: Sequence) -> None:
        """Give `sequence` an empty cache; the cache gets more rows where all are taken."""
        taken = {cache.row for cache in self.sequences.values()}
        if len(taken) == self.capacity:
            self.capacity *= 2
            self._replace(self.store.slots)
        self.sequences[sequence.id] = SequenceCache(min(set(range(self.capacity)) - taken))

    def free(self, sequence: Sequence) -> None:
        """Drop the cache; the last row moves into the gap so that the rows in use stay adjoining."""
        gap = self.sequences.pop(sequence.id).row
        last = max(self.sequences.values(), key=lambda cache: cache.row, default=None)
        if last is not None and last.row > gap:
            self._copy(last, gap)
            last.row = gap

    def fork(self, source: Sequence, target: Sequence) -> int:
        """Start `target`'s cache with what `source`'s cache shares with its text; returns the shared length."""
        cache, new = self.sequences[source.id], self.sequences[target.id]
        shared = common_prefix(cache.tokens, target.tokens[:-1], 0)
        with torch.inference_mode():
            self.store.copy_row(cache.row, new.row, shared)
        new.tokens, new.tree, new.agreed = cache.tokens[:shared], None, shared
        return shared

    @torch.inference_mode()
    def _copy(self, cache: SequenceCache, row: int) -> None:
        self.store.copy_row(cache.row, row, len(cache.tokens) + (len(cache.tree) if cache.tree else 0))

    def _reserve(self, slots: int) -> None:
        if slots > self.store.slots:
            self._replace(self.runner.bucketed(max(slots, 2 * self.store.slots)))

    @torch.inference_mode()
    def _replace(self, slots: int) -> None:
        """Go on in a cache of `capacity` rows of `slots` slots."""
        larger = SlotCache(self.runner.layout, self.capacity, slots)
        larger.copy_from(self.store, self.store.slots)
        self.store = larger

    def _plan(self, request: Forward) -> RowPlan:
        cache, tree, text = self.sequences[request.sequence.id], request.tree, request.sequence.tokens
        if cache.tree is not tree:
            cache.tree, cache.evaluated = tree, 0
        start, base = len(cache.tokens), max(len(cache.tokens), len(text) - 1)
        deepest = self._deepest(request.sequence, base)
        if deepest < 0:  # a draft whose context is full evaluates nothing more
            cache.tree = None
            return RowPlan(cache.row, start, start, [], [], tree.tokens, tree.ancestors, tree.depths)
        nodes = [n for n in range(cache.evaluated, len(tree)) if tree.depths[n] <= deepest and n not in tree.skipped]
        return RowPlan(cache.row, start, base, text[start:base], nodes, tree.tokens, tree.ancestors, tree.depths)

    def _deepest(self, sequence: Sequence, base: int) -> int:
        """The depth of the last nodes that are of use behind `base` tokens: by the token limit, and in this context."""
        return min(sequence.limit - 2, self.runner.max_length - 1) - base

    def _prefill(self, request: Forward, plan: RowPlan, keep: int) -> tuple[int, float]:
        """Evaluate missing text in chunks until at most `keep` rows of it are left; forwards made and their time."""
        cache, forwards, seconds = self.sequences[request.sequence.id], 0, 0.0
        while len(plan.missing) > keep:
            piece = plan.missing[:CHUNK]
            end = plan.start + len(piece)
            self._reserve(end)
            seconds += self.runner.call([RowPlan(plan.row, plan.start, end, piece, [], [], [], [])], self.store)[1]
            cache.tokens += piece
            plan.start, plan.missing = end, plan.missing[len(piece) :]
            forwards += 1
        return forwards, seconds

    def lacks(self, sequence: Sequence) -> bool:
        """Whether so much of the text is missing that it is evaluated before the common forward of a batch."""
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
        """Evaluate the requests' new nodes, in one batch where that is allowed; missing text goes first, alone.

        A batch is in the order of cache rows, whatever the requests' order: rows in use adjoin, so the model sees
        views of the cache instead of copies.
        """
        answers = dict[int, ForwardResult]()
        for batch in self._batches(sorted(requests, key=self._row)):
            for request, found in zip(batch, self._forward(batch), strict=True):
                answers[request.sequence.id] = found
        return [answers[request.sequence.id] for request in requests]

    def _batches(self, requests: list[Forward]) -> Iterator[list[Forward]]:
        """All requests at once, or under exact decoding as many as keep to the number of rows that was probed.

        A compiled forward takes one sequence, and its bits are its own.
        """
        exact = self.runner.exact
        if exact is None:
            yield requests
            return
        batch, rows = list[Forward](), 0
        for request in requests:
            wider = max(rows, exact.padded(len(request.tree)))
            if batch and (self.runner.compiled or wider * (len(batch) + 1) > exact.most):
                yield batch
                batch, wider = [], exact.padded(len(request.tree))
            batch.append(request)
            rows = wider
        yield batch

    def _kept(self, plan: RowPlan, alone: bool) -> int:
        """How many rows of missing text may stay for the common forward.

        Under exact decoding none: every prompt is cached by the same forwards, whatever comes behind it.
        """
        if self.runner.exact is not None:
            return 0
        return max(CHUNK - len(plan.nodes), 0) if alone else LONG_PREFIX

    def _forward(self, requests: list[Forward]) -> list[ForwardResult]:
        plans = [self._plan(request) for request in requests]
        before = [plan.count for plan in plans]
        alone = len(plans) == 1
        extra = [
            self._prefill(request, plan, self._kept(plan, alone)) for request, plan in zip(requests, plans, strict=True)
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
            context = text if plan.base == len(text) - 1 else [*cache.tokens, request.tree.tokens[0]]
            share = seconds / len(plans)
            answers.append(
                ForwardResult(
                    logits_NV, plan.nodes, context, before[number], plan.count, forwards, share,
                    prefill_seconds,
                )
            )  # fmt: skip
        return answers

    def _row(self, request: Forward) -> int:
        return self.sequences[request.sequence.id].row

    def commit(self, requests: list[Commit]) -> None:
        """Make each path contiguous behind its cache (a chain moves nothing) and forget the rest of the tree."""
        moves = []
        for request in requests:
            cache = self.sequences[request.sequence.id]
            tree, base = cache.tree, len(cache.tokens)
            assert tree is not None, "a commit follows a forward"
            wrong = [(node, place) for place, node in enumerate(request.path) if node != place]
            if wrong:
                moves.append((cache.row, [base + node for node, _ in wrong], [base + place for _, place in wrong]))
            cache.tokens += [tree.tokens[node] for node in request.path]
            cache.tree, cache.evaluated = None, 0
        if moves:
            with torch.inference_mode():
                self.store.move(moves)

    def follow(self, accepted: Commit) -> None:
        """Bring a draft's cache to the text after the target accepted a path.

        Nodes of the path that the draft evaluated while it grew the tree stay cached; then the cache is cut to its
        longest common prefix with the text, so that its next forward can catch up.
        """
        sequence = accepted.sequence
        cache = self.sequences[sequence.id]
        tree, path = accepted.guessed or (None, [])
        if tree is not None and cache.tree is tree:
            deepest = self._deepest(sequence, len(cache.tokens))
            known = [node for node in path if node < cache.evaluated and tree.depths[node] <= deepest]
            self.commit([Commit(accepted.model, sequence, known)])
        cache.agreed = common_prefix(cache.tokens, sequence.tokens[:-1], cache.agreed)
        del cache.tokens[cache.agreed :]
        cache.tree, cache.evaluated = None, 0
