"""A model's cached tokens of several sequences, their trees, and how both are brought to the text.

Shapes: N nodes evaluated of one tree, V vocabulary.
"""

import contextlib
import time

import torch

from leapdecode.core import Commit, Forward, ForwardResult, Sequence
from leapdecode.model.batch_slots import BatchSlots
from leapdecode.model.launched import Launched
from leapdecode.model.masks import RowPlan
from leapdecode.model.sequence_cache import common_prefix, deepest_of
from leapdecode.model.tree_check import TreeCheck
from leapdecode.model.waits import Waiting

LONG_PREFIX = 16  # in company, more missing text than this is evaluated before the common forward


def _saying(tokens: int) -> contextlib.AbstractContextManager[Waiting | None]:
    """A block that says so if a prompt of that many tokens takes long; short ones say nothing."""
    if tokens < LONG_PREFIX:
        return contextlib.nullcontext()
    return Waiting(f"evaluating {tokens:,} tokens of a prompt", tokens)


class KVCache(BatchSlots):
    """Forwards of sequences in a cache: ragged rows, growing trees, catch-up of missing text."""

    def _plan(self, request: Forward) -> RowPlan:
        return self.sequences[request.sequence.id].plan(request, self.runner.max_length)

    def _prefill(self, request: Forward, plan: RowPlan, keep: int) -> tuple[int, float]:
        """Evaluate missing text in chunks until at most `keep` rows of it are left.

        Returns the forwards made, and their seconds.
        """
        with _saying(len(plan.missing) - keep) as wait:
            return self._prefill_chunks(request, plan, keep, wait)

    def _prefill_chunks(
        self, request: Forward, plan: RowPlan, keep: int, wait: Waiting | None
    ) -> tuple[int, float]:
        cache, forwards, seconds = self.sequences[request.sequence.id], 0, 0.0
        while len(plan.missing) > keep:
            piece = plan.missing[: self.chunk]
            end, rows = plan.start + len(piece), self.runner.padded(len(piece))
            cache.note_exact(0, [])
            cache.prompt_rows = rows
            self._reserve(plan.start + rows)
            chunk = RowPlan(plan.batch_slot, plan.start, end, piece, [], [], [], [])
            launched = self.runner.launch([chunk], self.store, rows)
            seconds += launched.wait()[1]
            cache.tokens += piece
            plan.start, plan.missing = end, plan.missing[len(piece) :]
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
        answers = dict[int, ForwardResult]()
        exact, compiled = self.runner.exact, self.runner.compiled is not None
        in_order = sorted(requests, key=self._batch_slot)
        for batch in exact.split(in_order, compiled) if exact else [in_order]:
            for request, found in zip(batch, self._forward(batch), strict=True):
                answers[request.sequence.id] = found
        return [answers[request.sequence.id] for request in requests]

    def _kept(self, plan: RowPlan, requests: list[Forward], number: int) -> int:
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
        text, length = requests[number].sequence.tokens[:-1], plan.start + 1
        own = self.sequences[requests[number].sequence.id]
        taking = any(
            self.sequences[later.sequence.id].lacks_prompt
            and self.sequences[later.sequence.id].may_have(own)
            and common_prefix(later.sequence.tokens[:-1], text) >= length
            for later in requests[number + 1 :]
        )
        return 0 if taking else LONG_PREFIX

    def _forward(self, requests: list[Forward]) -> list[ForwardResult]:
        plans, before, extra = list[RowPlan](), list[int](), list[tuple[int, float]]()
        for number, request in enumerate(requests):
            self.share(request.sequence)
            plan = self._plan(request)
            plans.append(plan)
            before.append(plan.count)
            extra.append(self._prefill(request, plan, self._kept(plan, requests, number)))
        rows = self.runner.padded(max(plan.count for plan in plans), len(plans))
        self._reserve(max(plan.end + rows - plan.count for plan in plans))
        texts = [self.sequences[request.sequence.id] for request in requests]
        check = None
        checked = self.runner.check
        # what a draft gives are guesses
        if checked is not None and rows and requests[0].model == "target":
            check = TreeCheck(self.runner, checked)
            check.expect(requests, plans, texts, self.chunk)
        with _saying(sum(len(plan.missing) for plan in plans)):
            launched = self.runner.launch(plans, self.store, rows) if rows else self._nothing(plans)
            logits, seconds = launched.wait()
        offset = min(len(plan.missing) for plan in plans)
        firsts = [len(plan.missing) - offset for plan in plans]
        own = [
            logits_RV[first : first + len(plan.nodes)]
            for logits_RV, first, plan in zip(logits, firsts, plans, strict=True)
        ]
        if check is not None:
            check.look(self.store, requests, plans, own, rows)
        answers = list[ForwardResult]()
        for number, (request, plan) in enumerate(zip(requests, plans, strict=True)):
            cache, logits_NV = texts[number], own[number]
            cache.tokens += plan.missing
            cache.evaluated = len(request.tree)
            if plan.missing:
                cache.note_exact(0, [])
            cache.shown = dict(zip(plan.nodes, logits_NV, strict=True)) if self.runner.exact else {}
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
            tree, base = cache.tree, len(cache.tokens)
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
            cache.tree, cache.evaluated, cache.shown = None, 0, {}
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
