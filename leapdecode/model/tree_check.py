"""The check while decoding: the first forwards of each kind against the model's own code.

Flags are not enough: several architectures accept a tree mask and silently compute something else.
So where a text first brings something new (its prompt, a guess, guesses side by side, a batch, a
length beyond an attention window, ...) the logits that the next tokens rest on are compared with
those of plain forwards of the same tokens, before any of these tokens is told. Nothing is
compared before decoding.

Shapes: N nodes of a path, V vocabulary, H heads, T tokens, D head size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from leapdecode.core import Forward, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.cache_names import CACHE
from leapdecode.model.forbidden import levelled
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.masks import RowPlan
from leapdecode.model.probe import FACTOR, FLOOR, HALF_FLOOR
from leapdecode.model.runner import Runner
from leapdecode.model.sequence_cache import SequenceCache
from leapdecode.model.yardstick import cap

MOST = 16  # tokens of a forward that is made to compare, at most
START = 8  # of a text's first and of its last tokens the keys and values are compared
DEEP = 4  # nodes of a path: deeper ones are no other kind
FIRST, LAST = {"text", "batch", "taken over"}, {"batch", "taken over", "chunks", "window"}

Kind = tuple[str, int]  # a name, and a size where sizes are kinds of their own


class TreeCheck:
    """What a runner's forwards have proved to do right, by kind."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.seen: set[Kind] = set()
        self.new: list[set[Kind]] = []  # what the forward under way brings, per text
        self.forwards = 0  # made to compare

    def expect(
        self, requests: list[Forward], plans: list[RowPlan], texts: list[SequenceCache], chunk: int
    ) -> None:
        """Take notice of what is new in a forward that starts; `chunk`: tokens of a prompt that
        are evaluated together.
        """
        self.new = [
            self._kinds(request.tree, plan, text, len(plans), chunk) - self.seen
            for request, plan, text in zip(requests, plans, texts, strict=True)
        ]

    @property
    def trying(self) -> bool:
        """Whether the forward under way has something new."""
        return any(self.new)

    @torch.inference_mode()
    def look(
        self,
        store: SlotCache,
        requests: list[Forward],
        plans: list[RowPlan],
        logits: list[Tensor],
        rows: int,
    ) -> None:
        """Compare what a forward of `rows` gave: [N, V] `logits` at each plan's nodes.

        Raises `UnsupportedModel` where it is not what plain decoding gives.
        """
        if not self.trying:
            return
        expected, self.new = self.new, []
        for number in sorted({0, len(plans) - 1}):
            own_NV, new = logits[number], expected[number]
            if not new:
                continue
            self.new = [new]
            if own_NV.isfinite().any(-1).all():
                self._compare(store, requests[number], plans[number], own_NV, rows, new)
                self.seen |= new
            elif not self.seen:
                self._refuse_damage(store, requests[number].sequence.tokens[0])
            self.new = []

    def _kinds(
        self, tree: TokenTree, plan: RowPlan, text: SequenceCache, texts: int, chunk: int
    ) -> set[Kind]:
        """Of what kinds a forward is for one of its `texts`."""
        if not plan.nodes:
            return set()
        end = plan.base + max(plan.depths[node] for node in plan.nodes) + 1
        path = len(_first_path(tree, plan.nodes))
        held = {
            ("text", min(end, START)): True,
            ("guess", min(path, DEEP)): path > 1,
            ("side by side", 0): path < len(plan.nodes),
            ("batch", 0): texts > 1,
            ("taken over", 0): text.reused > 0,
            ("chunks", 0): plan.base > chunk,
        }
        windows = {("window", size) for _, size in self.runner.form.windows if 0 < size < end}
        return windows | {kind for kind, holds in held.items() if holds}

    def _compare(
        self,
        store: SlotCache,
        request: Forward,
        plan: RowPlan,
        own_NV: Tensor,
        rows: int,
        new: set[Kind],
    ) -> None:
        tree, text = request.tree, request.sequence.tokens[: plan.base]
        paths = [_first_path(tree, plan.nodes)]
        names = {name for name, _ in new}
        if "side by side" in names:
            paths.append(_path_to(tree, plan.nodes[-1]))
        if plan.base + len(paths[0]) > MOST:  # shorter ones are evaluated as a whole
            first = slice(min(START, plan.base)), FIRST
            last = slice(max(plan.base - START, 0), plan.base), LAST
            for span, kinds in (first, last):
                if kinds & names and plan.base:
                    self._compare_states(store, plan.batch_slot, text, span)
        place = {node: row for row, node in enumerate(plan.nodes)}
        for path in paths:
            path = path[:MOST]
            tokens = [tree.tokens[node] for node in path]
            found_NV = own_NV[[place[node] for node in path]]
            self._compare_path(store, plan.batch_slot, text, tokens, found_NV, rows)

    def _refuse_damage(self, store: SlotCache, token: int) -> None:
        """Raise `DamagedModel` where a forward of one token gives no finite logits either."""
        if not self._own_forward([token], store).logits.isfinite().any():
            raise DamagedModel(
                f"{type(self.runner.model).__name__} gives logits that are not finite; its weights "
                "are damaged"
            )

    def _compare_path(
        self,
        store: SlotCache,
        batch_slot: int,
        text: list[int],
        path: list[int],
        found_NV: Tensor,
        rows: int,
    ) -> None:
        """Compare logits along a path behind `text` with a forward of as many rows, if those
        differ, with one of another number too: of two right answers the nearer one counts.
        """
        dtype = self.runner.rounding
        floor = FACTOR * FLOOR.get(dtype, HALF_FLOOR)
        room = MOST - len(path)
        first = min(len(text) if len(text) <= room else max(rows - len(path), 0), room)
        one_NV = self._plain(store, batch_slot, text, path, first)
        apart = _distances(one_NV, found_NV)
        worst = _mean(apart)
        if worst <= floor:
            return
        other = 0 if first else min(room, len(text))
        other_NV = self._plain(store, batch_slot, text, path, other)
        rounding = _mean(_distances(one_NV, other_NV))
        tolerance = min(max(FACTOR * rounding, floor), cap(dtype))
        worst = _mean(list(map(min, apart, _distances(other_NV, found_NV))))
        if not worst <= tolerance:
            raise UnsupportedModel(
                f"its logits at a tree's nodes differ from plain decoding's by {worst:.2g} "
                f"standard deviations, where rounding explains {tolerance:.2g}"
            )

    def _plain(
        self, store: SlotCache, batch_slot: int, text: list[int], path: list[int], earlier: int
    ) -> Tensor:
        """[N, V] logits along `path` of the model's own forward of the last `earlier` tokens of
        `text` and the path, behind the keys and values that are cached of the tokens before.
        """
        start = len(text) - earlier
        output = self._own_forward([*text[start:], *path], store, batch_slot, start)
        logits: Tensor = output.logits[0, -len(path) :]
        return logits

    def _own_forward(
        self, ids: list[int], store: SlotCache, batch_slot: int = 0, start: int = 0
    ) -> Any:
        """The model's own forward, as `generate` makes it, of tokens behind the first `start` ones
        of a text, whose keys and values are copied.
        """
        self.forwards += 1
        runner, cache = self.runner, DynamicCache()
        for number, layer in enumerate(store.layers if start else ()):
            states = (layer.keys, layer.values)
            keys, values = (part[batch_slot : batch_slot + 1, :, :start] for part in states)
            cache.update(keys, values, number)
        tokens = torch.tensor([ids], device=runner.device)
        places = torch.arange(start, start + len(ids), device=runner.device)[None]
        given = {runner.cache_name: cache, **runner.constants}
        with runner.own:
            return runner.model(
                input_ids=tokens, position_ids=places, use_cache=True, return_dict=True, **given
            )

    def _compare_states(
        self, store: SlotCache, batch_slot: int, text: list[int], span: slice
    ) -> None:
        """Compare the keys and values of a span of a text with those that the model's own forward
        of these tokens gives, or a larger one if those differ.
        """
        found = [
            part[batch_slot, :, span]
            for layer in store.layers
            for part in (layer.keys, layer.values)
        ]
        one = self._plain_states(store, batch_slot, text, span, 0)
        worst, floor = _apart(one, found), FACTOR * FLOOR.get(self.runner.rounding, HALF_FLOOR)
        if worst <= floor:
            return
        other = self._plain_states(store, batch_slot, text, span, MOST - START)
        tolerance = min(max(FACTOR * _apart(one, other), floor), cap(self.runner.rounding))
        worst = min(worst, _apart(other, found))
        if not worst <= tolerance:
            raise UnsupportedModel(
                f"keys and values of its text differ from plain decoding's by {worst:.2g} of their "
                f"size, where rounding explains {tolerance:.2g}"
            )

    def _plain_states(
        self, store: SlotCache, batch_slot: int, text: list[int], span: slice, more: int
    ) -> list[Tensor]:
        """The keys and values [H, T, D] of a `span` of the text, of every layer, by the model's
        own forward over it and `more` tokens before it, or behind it where it is the first.
        """
        first, end = span.start or 0, span.stop
        start = max(first - more, 0)
        ids = text[start : end if first else end + more]
        output = self._own_forward(ids, store, batch_slot, start)
        return [
            part[0, :, first:end]
            for layer in getattr(output, CACHE).layers
            for part in (layer.keys, layer.values)
        ]


def _apart(one: list[Tensor], other: list[Tensor]) -> float:
    """The root mean square of the difference against the first one's size, the largest of all."""
    found = 0.0
    for mine, theirs in zip(one, other, strict=True):
        size = mine.double().square().mean().sqrt().clamp_min(1e-30)
        found = max(found, float((mine.double() - theirs.double()).square().mean().sqrt() / size))
    return found


def _first_path(tree: TokenTree, nodes: list[int]) -> list[int]:
    """The first child's first child and so on, of those evaluated, from the root."""
    path, evaluated = [nodes[0]], set(nodes)
    for node in nodes[1:]:
        if tree.parents[node] == path[-1] and node in evaluated:
            path.append(node)
    return path


def _path_to(tree: TokenTree, leaf: int) -> list[int]:
    """The nodes from the root down to `leaf`."""
    path = [leaf]
    while tree.parents[path[0]] >= 0:
        path.insert(0, tree.parents[path[0]])
    return path


def _distances(one_NV: Tensor, other_NV: Tensor) -> list[float]:
    """Per node the root mean square of the difference, in standard deviations of the first."""
    one_NV, other_NV = levelled(one_NV.double(), other_NV.double())
    apart_N = (one_NV - other_NV).square().mean(-1).sqrt() / one_NV.std(-1)
    found: list[float] = apart_N.tolist()
    return found


def _mean(distances: list[float]) -> float:
    """Over the nodes, as a mixture of experts may route one otherwise; a wrong mask is wrong at
    most.
    """
    return sum(distances) / len(distances)
