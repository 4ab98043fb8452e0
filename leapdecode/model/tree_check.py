"""The check while decoding: the first forwards of each kind against the model's own code.

Flags are not enough: several architectures accept a tree mask and silently compute something else.
So where a text first brings something new (its prompt, a guess, guesses side by side, a batch, a
length beyond an attention window, ...) the logits that the next tokens rest on are compared with
those of plain forwards of the same tokens, before any of these tokens is told. Nothing is
compared before decoding.

Shapes: N nodes of a path, V vocabulary, H heads, T tokens, D head size.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache

from leapdecode.core import Forward, TokenTree
from leapdecode.errors import DamagedModel, UnsupportedModel
from leapdecode.model.cache_names import CACHE
from leapdecode.model.kv_store import SlotCache
from leapdecode.model.masks import RowPlan
from leapdecode.model.runner import CheckedKinds, Kind, Runner
from leapdecode.model.sequence_cache import SequenceCache
from leapdecode.model.yardstick import distances, mean, tolerance

MOST = 16  # tokens of a forward that is made to compare, at most
SPAN = 8  # of a text's first and of its last tokens the keys and values are compared
DEEP = 4  # nodes of a path: longer ones are no other kind
START_OF = {"text", "batch", "taken over"}  # kinds for which a text's first tokens are compared
END_OF = {"batch", "taken over", "chunks", "window"}  # and its last ones

Compared = TypeVar("Compared", Tensor, list[Tensor])


class TreeCheck:
    """Compares a runner's forwards of new kinds; `checked` are those that it has shown."""

    def __init__(self, runner: Runner, checked: CheckedKinds) -> None:
        self.runner = runner
        self.checked = checked

    def expect(
        self, requests: list[Forward], plans: list[RowPlan], texts: list[SequenceCache], chunk: int
    ) -> None:
        """Take notice of what is new in a forward that starts; `chunk`: tokens of a prompt that
        are evaluated together.
        """
        self.checked.new = [
            self._kinds(request.tree, plan, text, len(plans), chunk) - self.checked.seen
            for request, plan, text in zip(requests, plans, texts, strict=True)
        ]

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
        checked = self.checked
        expected = checked.new
        checked.new = []
        for place in sorted({0, len(plans) - 1}):
            new = expected[place] if expected else set()
            if not new:
                continue
            checked.new = [new]  # an error in here is one of a new kind, too
            if logits[place].isfinite().any(-1).all():
                try:
                    self._compare(store, requests[place], plans[place], logits[place], rows, new)
                except UnsupportedModel:
                    if not self.runner.changed:
                        raise
                else:
                    checked.seen |= new
            elif not checked.seen:
                self._refuse_damage(store, requests[place].sequence.tokens[0])
            checked.new = []

    def _kinds(
        self, tree: TokenTree, plan: RowPlan, text: SequenceCache, texts: int, chunk: int
    ) -> set[Kind]:
        """Of what kinds a forward is for one of its `texts`; of none where the text began by other
        weights, which nothing could be compared with.
        """
        if not plan.nodes or text.changes != self.runner.changes:
            return set()
        end = plan.base + max(plan.depths[node] for node in plan.nodes) + 1
        path = len(_first_path(tree, plan.nodes))
        kinds = {
            ("text", min(end, SPAN)): True,
            ("guess", min(path, DEEP)): path > 1,
            ("side by side", 0): path < len(plan.nodes),
            ("batch", 0): texts > 1,
            ("taken over", 0): text.reused > 0,
            ("chunks", 0): plan.base > chunk,
        }
        windows = {("window", size) for _, size in self.runner.form.windows if 0 < size < end}
        return windows | {kind for kind, holds in kinds.items() if holds}

    def _compare(
        self,
        store: SlotCache,
        request: Forward,
        plan: RowPlan,
        own_NV: Tensor,
        rows: int,
        new: set[Kind],
    ) -> None:
        text, tree = request.sequence.tokens[: plan.base], request.tree
        names = {name for name, _ in new}
        paths = [_first_path(tree, plan.nodes)]
        if "side by side" in names:
            paths.append(tree.path_to(plan.nodes[-1]))
        if text and len(text) + len(paths[0]) > MOST:  # shorter ones are evaluated as a whole
            if START_OF & names:
                self._compare_states(store, plan.batch_slot, text, 0)
            if END_OF & names:
                self._compare_states(store, plan.batch_slot, text, max(len(text) - SPAN, 0))
        row_of = {node: row for row, node in enumerate(plan.nodes)}
        for path in paths:
            nodes = path[:MOST]
            tokens = [tree.tokens[node] for node in nodes]
            path_NV = own_NV[[row_of[node] for node in nodes]]
            self._compare_path(store, plan.batch_slot, text, tokens, path_NV, rows)

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
        own_NV: Tensor,
        rows: int,
    ) -> None:
        """Compare logits along a path behind `text`, of a forward of as many `rows` where it may
        have them.
        """
        room = min(MOST - len(path), len(text))
        earlier = room if room == len(text) else min(max(rows - len(path), 0), room)

        def plain(earlier: int) -> Tensor:
            start = len(text) - earlier
            output = self._own_forward([*text[start:], *path], store, batch_slot, start)
            logits_NV: Tensor = output.logits[0, -len(path) :]
            return logits_NV

        sizes = list(dict.fromkeys((earlier, 0 if earlier else room, room // 2)))
        self._refuse_other("logits at a tree's nodes", own_NV, plain, sizes, distances)

    def _compare_states(
        self, store: SlotCache, batch_slot: int, text: list[int], first: int
    ) -> None:
        """Compare the keys and values of `SPAN` tokens of a text from the `first` on, by forwards
        over them and some tokens before, or behind where there are none before.
        """
        end = min(first + SPAN, len(text))
        ours = [part[batch_slot, :, first:end] for part in _states(store.layers)]

        def plain(more: int) -> list[Tensor]:
            start = max(first - more, 0)
            ids = text[start : end if first else end + more]
            cache = getattr(self._own_forward(ids, store, batch_slot, start), CACHE)
            return [part[0, :, first:end] for part in _states(cache.layers)]

        sizes = [0, MOST - SPAN]
        self._refuse_other("keys and values of a text", ours, plain, sizes, _furthest)

    def _refuse_other(
        self,
        what: str,
        ours: Compared,
        plain: Callable[[int], Compared],
        sizes: list[int],
        distances_of: Callable[[Compared, Compared], list[float]],
    ) -> None:
        """Raise `UnsupportedModel` where `own` is not what `plain` forwards give.

        The sizes of forward behind the first are asked for only where that differs: they show what
        rounding does, and of right answers the nearest one counts.
        """
        dtype = self.runner.rounding
        usual = plain(sizes[0])
        distances_of_usual = distances_of(usual, ours)
        if mean(distances_of_usual) <= tolerance(0.0, dtype):
            return
        answers = [usual]
        answers += [plain(size) for size in sizes[1:]]
        rounding = [
            mean(distances_of(first, second))
            for first, second in itertools.combinations(answers, 2)
        ]
        allowed = tolerance(mean(rounding) if rounding else 0.0, dtype)
        distances_N = zip(*(distances_of(answer, ours) for answer in answers), strict=True)
        worst = mean([min(distances_of_node) for distances_of_node in distances_N])
        if not worst <= allowed:
            raise UnsupportedModel(
                f"its {what} differ from plain decoding's by {worst:.2g} of their spread, "
                f"where rounding explains {allowed:.2g}"
            )

    def _own_forward(
        self, ids: list[int], store: SlotCache, batch_slot: int = 0, start: int = 0
    ) -> Any:
        """The model's own forward, as `generate` makes it, of tokens behind the first `start` ones
        of a text, whose keys and values are copied.
        """
        self.checked.forwards += 1
        runner = self.runner
        cache = DynamicCache()
        for number, layer in enumerate(store.layers if start else ()):
            keys = layer.keys[batch_slot : batch_slot + 1, :, :start]
            values = layer.values[batch_slot : batch_slot + 1, :, :start]
            cache.update(keys, values, number)
        tokens = torch.tensor([ids], device=runner.device)
        places = torch.arange(start, start + len(ids), device=runner.device)[None]
        arguments = {runner.cache_name: cache, **runner.constants}
        with runner.own:
            return runner.model(
                input_ids=tokens, position_ids=places, use_cache=True, return_dict=True, **arguments
            )


def _states(layers: list[Any]) -> list[Tensor]:
    """The keys and values [B, H, T, D] of all layers."""
    return [part for layer in layers for part in (layer.keys, layer.values)]


def _furthest(first: list[Tensor], second: list[Tensor]) -> list[float]:
    """The greatest of all layers' differences, as a root mean square against that of the first."""
    furthest = 0.0
    for plain, computed in zip(first, second, strict=True):
        size = plain.double().square().mean().sqrt().clamp_min(1e-30)
        gap = (plain.double() - computed.double()).square().mean().sqrt()
        furthest = max(furthest, float(gap / size))
    return [furthest]


def _first_path(tree: TokenTree, nodes: list[int]) -> list[int]:
    """The first child's first child and so on, of those evaluated, from the root."""
    path = nodes[:1]
    for node in nodes[1:]:
        if tree.parents[node] == path[-1]:
            path.append(node)
    return path
