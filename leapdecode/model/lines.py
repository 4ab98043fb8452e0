"""Lines: a model's cached tokens per sequence, their trees, and how both are brought to the text.

Shapes: B sequences in the forward, R rows of the longest of them, N nodes evaluated of one tree, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from leapdecode.core import Commit, Forward, Sequence, TokenTree
from leapdecode.model.masks import RowPlan
from leapdecode.model.protocol import Raw
from leapdecode.model.slots import SlotCache

if TYPE_CHECKING:
    from leapdecode.model.runner import Runner

CHUNK = 512  # rows of a prefill forward: its mask is [CHUNK, slots], never [n, n]
LONG_PREFIX = 16  # in company, more missing text than this is evaluated before the common forward


@dataclass(slots=True)
class Line:
    """A model's cached tokens for one sequence, in one cache row; `evaluated` nodes of `tree` lie behind them."""

    row: int
    tokens: list[int] = field(default_factory=list)
    tree: TokenTree | None = None
    evaluated: int = 0
    agreed: int = 0


class SlotLines:
    """Lines in a slot cache: ragged rows, trees that grow over several forwards, catch-up of missing text."""

    def __init__(self, runner: Runner, rows: int, slots: int) -> None:
        self.runner, self.capacity = runner, rows
        self.store = runner.cache(rows, slots)
        self.lines: dict[int, Line] = {}
        self.soiled = False  # values that are not finite were written, and may still stand somewhere

    def close(self) -> None:
        if not self.soiled:
            self.runner.release(self.store)

    def clean(self, sequence: Sequence, keep_text: bool) -> None:
        """Empty what stands behind `sequence`'s text, or its whole row.

        What is not finite there reaches rows that it is hidden from: a weight of 0 times infinity is not 0.
        """
        line, self.soiled = self.lines[sequence.id], True
        if not keep_text:
            line.tokens, line.agreed = [], 0
        line.tree, line.evaluated = None, 0
        with torch.inference_mode():
            self.store.clean(line.row, len(line.tokens))

    def join(self, sequence: Sequence) -> None:
        """Give `sequence` an empty line; a free row must exist."""
        taken = {line.row for line in self.lines.values()}
        self.lines[sequence.id] = Line(min(set(range(self.capacity)) - taken))

    def leave(self, sequence: Sequence) -> None:
        """Drop the line; the last row moves into the gap so that the rows in use stay adjoining."""
        gap = self.lines.pop(sequence.id).row
        last = max(self.lines.values(), key=lambda line: line.row, default=None)
        if last is not None and last.row > gap:
            self._copy(last, gap)
            last.row = gap

    def fork(self, source: Sequence, target: Sequence) -> int:
        """Start `target`'s line with what `source`'s line shares with its text; returns the shared length."""
        line, new = self.lines[source.id], self.lines[target.id]
        shared = common_prefix(line.tokens, target.tokens[:-1], 0)
        with torch.inference_mode():
            self.store.copy_row(line.row, new.row, shared)
        new.tokens, new.tree, new.agreed = line.tokens[:shared], None, shared
        return shared

    @torch.inference_mode()
    def _copy(self, line: Line, row: int) -> None:
        self.store.copy_row(line.row, row, len(line.tokens) + (len(line.tree) if line.tree else 0))

    @torch.inference_mode()
    def _reserve(self, slots: int) -> None:
        if slots > self.store.slots:
            wanted = self.runner.bucketed(max(slots, 2 * self.store.slots))
            larger = SlotCache(self.runner.layout, self.capacity, wanted)
            larger.copy_from(self.store, self.store.slots)
            self.store = larger

    def _plan(self, request: Forward) -> RowPlan:
        line, tree, text = self.lines[request.sequence.id], request.tree, request.sequence.tokens
        if line.tree is not tree:
            line.tree, line.evaluated = tree, 0
        start, base = len(line.tokens), max(len(line.tokens), len(text) - 1)
        deepest = self._deepest(request.sequence, base)
        if deepest < 0:  # a draft whose context is full evaluates nothing more
            line.tree = None
            return RowPlan(line.row, start, start, [], [], tree.tokens, tree.ancestors, tree.depths)
        nodes = [n for n in range(line.evaluated, len(tree)) if tree.depths[n] <= deepest and n not in tree.skipped]
        return RowPlan(line.row, start, base, text[start:base], nodes, tree.tokens, tree.ancestors, tree.depths)

    def _deepest(self, sequence: Sequence, base: int) -> int:
        """The depth of the last nodes that are of use behind `base` tokens: by the token limit, and in this context."""
        return min(sequence.limit - 2, self.runner.max_length - 1) - base

    def _prefill(self, request: Forward, plan: RowPlan, keep: int) -> tuple[int, float]:
        """Evaluate missing text in chunks until at most `keep` rows of it are left; forwards made and their time."""
        line, forwards, seconds = self.lines[request.sequence.id], 0, 0.0
        while len(plan.missing) > keep:
            piece = plan.missing[:CHUNK]
            end = plan.start + len(piece)
            self._reserve(end)
            seconds += self.runner.call([RowPlan(plan.row, plan.start, end, piece, [], [], [], [])], self.store)[1]
            line.tokens += piece
            plan.start, plan.missing = end, plan.missing[len(piece) :]
            forwards += 1
        return forwards, seconds

    @torch.inference_mode()
    def forward(self, requests: list[Forward]) -> list[Raw]:
        """Evaluate the requests' new nodes, in one batch where that is allowed; missing text goes first, alone.

        A batch is in the order of cache rows, whatever the requests' order: rows in use adjoin, so the model sees
        views of the cache instead of copies.
        """
        answers = dict[int, Raw]()
        for batch in self._batches(sorted(requests, key=self._row)):
            for request, raw in zip(batch, self._forward(batch), strict=True):
                answers[request.sequence.id] = raw
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

    def _forward(self, requests: list[Forward]) -> list[Raw]:
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
        answers = list[Raw]()
        for number, (request, plan) in enumerate(zip(requests, plans, strict=True)):
            line, first = self.lines[request.sequence.id], len(plan.missing) - offset
            line.tokens += plan.missing
            line.evaluated = len(request.tree)
            logits_NV = logits[number, first : first + len(plan.nodes)]
            forwards, prefill_seconds = extra[number]
            text = request.sequence.tokens
            context = text if plan.base == len(text) - 1 else [*line.tokens, request.tree.tokens[0]]
            share = seconds / len(plans)
            answers.append(
                Raw(
                    logits_NV, plan.nodes, context, before[number], plan.count, forwards, share,
                    prefill_seconds,
                )
            )  # fmt: skip
        return answers

    def _row(self, request: Forward) -> int:
        return self.lines[request.sequence.id].row

    def commit(self, requests: list[Commit]) -> None:
        """Make each path contiguous behind its line (a chain moves nothing) and forget the rest of the tree."""
        moves = []
        for request in requests:
            line = self.lines[request.sequence.id]
            tree, base = line.tree, len(line.tokens)
            assert tree is not None, "a commit follows a forward"
            wrong = [(node, place) for place, node in enumerate(request.path) if node != place]
            if wrong:
                moves.append((line.row, [base + node for node, _ in wrong], [base + place for _, place in wrong]))
            line.tokens += [tree.tokens[node] for node in request.path]
            line.tree, line.evaluated = None, 0
        if moves:
            with torch.inference_mode():
                self.store.move(moves)

    def follow(self, accepted: Commit) -> None:
        """Bring a draft's line to the text after the target accepted a path.

        Nodes of the path that the draft evaluated while it grew the tree stay cached; then the line is cut to its
        longest common prefix with the text, so that its next forward can catch up.
        """
        sequence = accepted.sequence
        line = self.lines[sequence.id]
        tree, path = accepted.guessed or (None, [])
        if tree is not None and line.tree is tree:
            deepest = self._deepest(sequence, len(line.tokens))
            known = [node for node in path if node < line.evaluated and tree.depths[node] <= deepest]
            self.commit([Commit(accepted.model, sequence, known)])
        line.agreed = common_prefix(line.tokens, sequence.tokens[:-1], line.agreed)
        del line.tokens[line.agreed :]
        line.tree, line.evaluated = None, 0


def common_prefix(first: list[int], second: list[int], known: int) -> int:
    """Length of the longest common prefix, of which `known` tokens are already known to agree."""
    end = min(len(first), len(second))
    while known < end and first[known] == second[known]:
        known += 1
    return min(known, end)
