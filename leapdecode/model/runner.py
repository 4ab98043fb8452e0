"""Runs the pending forwards of one model: which rows, at which slots, under which mask.

Shapes: B sequences in the forward, R rows of the longest of them, N nodes evaluated of one tree, V vocabulary.
"""

import inspect
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from leapdecode.core import Commit, Forward, Sequence, TokenTree
from leapdecode.errors import UnsupportedModel
from leapdecode.model.masks import RowPlan
from leapdecode.model.slots import Layout, SlotCache, bucketed
from leapdecode.model.traits import context_length, mask_form, refuse_by_flag, text_config

CHUNK = 512  # rows of a prefill forward: its mask is [CHUNK, slots], never [n, n]
LONG_PREFIX = 16  # in company, more missing text than this is evaluated before the common forward


@dataclass(slots=True)
class Raw:
    """One sequence's part of a forward: `logits_NV` of `nodes`, whose root is the last token of `context`.

    `only_prefill` forwards preceded it and took `prefill_seconds`; `seconds` is the sequence's share of this one.
    """

    logits_NV: Tensor
    nodes: list[int]
    context: list[int]
    rows: int
    step_rows: int
    only_prefill: int
    seconds: float
    prefill_seconds: float


@dataclass(slots=True)
class Line:
    """A model's cached tokens for one sequence, in one cache row; `evaluated` nodes of `tree` lie behind them."""

    row: int
    tokens: list[int] = field(default_factory=list)
    tree: TokenTree | None = None
    evaluated: int = 0
    agreed: int = 0


class Lines(Protocol):
    """The lines of up to some number of sequences on one model: what an executor drives."""

    def join(self, sequence: Sequence) -> None: ...
    def leave(self, sequence: Sequence) -> None: ...
    def forward(self, requests: list[Forward]) -> list[Raw]: ...
    def commit(self, requests: list[Commit]) -> None: ...
    def cut_back(self, sequence: Sequence) -> None: ...


class Runner:
    """An unmodified model, with what the engine must know about it.

    Raises `UnsupportedModel` when its flags or its layout rule out token trees. `probe` checks the rest.
    """

    def __init__(self, model: Any) -> None:
        refuse_by_flag(model)
        self.model, self.config = model, text_config(model)
        self.form = mask_form(self.config)
        self.max_length, self.note = context_length(self.config)
        self.vocabulary = model.get_input_embeddings().num_embeddings
        self.layout = read_layout(model)
        self.device, self.dtype = self.layout.device, self.layout.dtype
        self.keeps_logits = "logits_to_keep" in inspect.signature(model.forward).parameters
        self.spare: list[SlotCache] = []

    def open(self, rows: int, slots: int) -> "SlotLines":
        """Lines for up to `rows` sequences; `slots` is how many each is expected to need."""
        return SlotLines(self, rows, slots)

    def cache(self, rows: int, slots: int) -> SlotCache:
        """A spare cache that is large enough, without being wastefully large, or a new one."""
        slots = bucketed(slots)
        for number, cache in enumerate(self.spare):
            if cache.rows == rows and slots <= cache.slots <= 4 * slots:
                return self.spare.pop(number)
        return SlotCache(self.layout, rows, slots)

    def release(self, cache: SlotCache) -> None:
        """Keep one spare cache for the next run."""
        self.spare = [cache]

    def call(self, plans: list[RowPlan], cache: SlotCache) -> tuple[Tensor, float]:
        """One forward over all rows of `plans`; logits [B, kept rows, V] from the first tree row on, and its seconds."""
        rows = max(plan.count for plan in plans)
        ids, positions, slots = [], [], []
        for plan in plans:
            pad = rows - plan.count
            ids.append(plan.row_tokens() + [0] * pad)
            positions.append(plan.row_positions() + [0] * pad)
            slots.append([*plan.row_slots(), *range(plan.end, plan.end + pad)])
        packed = torch.tensor([ids, positions, slots]).to(self.device, non_blocking=True)
        seen = min(bucketed(max(plan.end + rows - plan.count for plan in plans)), cache.slots)
        cache.aim([plan.row for plan in plans], packed[2], seen)
        cache.length = max(plan.start for plan in plans)
        mask = self.form.build(plans, packed[1], seen, self.dtype)
        kept = rows - min(len(plan.missing) for plan in plans)
        began = time.perf_counter()
        output = self.model(
            input_ids=packed[0],
            position_ids=packed[1],
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
            **({"logits_to_keep": max(kept, 1)} if self.keeps_logits else {}),
        )
        seconds = time.perf_counter() - began
        return output.logits[:, output.logits.shape[1] - max(kept, 1) :], seconds


@torch.inference_mode()
def read_layout(model: Any) -> Layout:
    """Shapes, dtype and device of every layer's keys and values, read off a forward of one token."""
    device = model.get_input_embeddings().weight.device
    try:
        output = model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=device), use_cache=True)
    except Exception as error:  # a model's own code may raise anything; the reason is what matters
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise UnsupportedModel(f"a plain forward of one token fails ({reason})") from error
    layers = getattr(output.past_key_values, "layers", None) or []
    if not layers or any(getattr(layer, "keys", None) is None for layer in layers):
        raise UnsupportedModel("its cache does not hold keys and values for every layer, so it cannot be rolled back")
    keys = tuple((layer.keys.shape[1], layer.keys.shape[3]) for layer in layers)
    values = tuple((layer.values.shape[1], layer.values.shape[3]) for layer in layers)
    return Layout(keys, values, layers[0].keys.dtype, layers[0].keys.device)


class SlotLines:
    """Lines in a slot cache: ragged rows, trees that grow over several forwards, catch-up of missing text."""

    def __init__(self, runner: Runner, rows: int, slots: int) -> None:
        self.runner, self.capacity = runner, rows
        self.store = runner.cache(rows, slots)
        self.lines: dict[int, Line] = {}

    def close(self) -> None:
        self.runner.release(self.store)

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
            larger = SlotCache(self.runner.layout, self.capacity, bucketed(max(slots, 2 * self.store.slots)))
            larger.copy_from(self.store, self.store.slots)
            self.store = larger

    def _plan(self, request: Forward) -> RowPlan:
        line, tree, text = self.lines[request.sequence.id], request.tree, request.sequence.tokens
        if line.tree is not tree:
            line.tree, line.evaluated = tree, 0
        start, base = len(line.tokens), max(len(line.tokens), len(text) - 1)
        deepest = min(request.sequence.limit - 2, self.runner.max_length - 1) - base
        nodes = [node for node in range(line.evaluated, len(tree)) if tree.depths[node] <= deepest]
        return RowPlan(
            line.row, start, base, text[start:base], nodes, tree.tokens, tree.ancestors, tree.depths
        )

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
        """Evaluate the requests' new nodes in one batch; long missing text goes first, in chunks, alone."""
        plans = [self._plan(request) for request in requests]
        before = [plan.count for plan in plans]
        alone = len(plans) == 1
        extra = [
            self._prefill(request, plan, max(CHUNK - len(plan.nodes), 0) if alone else LONG_PREFIX)
            for request, plan in zip(requests, plans, strict=True)
        ]
        rows = max(plan.count for plan in plans)
        self._reserve(max(plan.end + rows - plan.count for plan in plans))
        logits, seconds = self.runner.call(plans, self.store) if rows else (torch.zeros(len(plans), 0, 0), 0.0)
        offset = min(len(plan.missing) for plan in plans)
        answers = []
        for number, (request, plan) in enumerate(zip(requests, plans, strict=True)):
            line, first = self.lines[request.sequence.id], len(plan.missing) - offset
            line.tokens += plan.missing
            line.evaluated = len(request.tree)
            logits_NV = logits[number, first : first + len(plan.nodes)]
            forwards, prefill_seconds = extra[number]
            text = request.sequence.tokens
            context = text if plan.base == len(text) - 1 else [*line.tokens, request.tree.tokens[0]]
            answers.append(
                Raw(logits_NV, plan.nodes, context, before[number], plan.count, forwards, seconds / len(plans), prefill_seconds)
            )
        return answers

    @torch.inference_mode()
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
            self.store.move(moves)

    def cut_back(self, sequence: Sequence) -> None:
        """Cut the line to its longest common prefix with the text, so that its next forward can catch up."""
        line = self.lines[sequence.id]
        line.agreed = common_prefix(line.tokens, sequence.tokens[:-1], line.agreed)
        del line.tokens[line.agreed :]
        line.tree, line.evaluated = None, 0


def common_prefix(first: list[int], second: list[int], known: int) -> int:
    """Length of the longest common prefix, of which `known` tokens are already known to agree."""
    end = min(len(first), len(second))
    while known < end and first[known] == second[known]:
        known += 1
    return min(known, end)
