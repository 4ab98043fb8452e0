"""The rejection verifier: it keeps the target's distribution, not the text of plain decoding.

Leviathan et al. 2023 and Chen et al. 2023 for chains; with and without replacement for trees as in
SpecInfer and MCSD. A guess that was not drawn (an n-gram, a phrase) counts as drawn from a
distribution with all its mass on one token.

Shapes: N nodes, V vocabulary.
"""

import random
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import torch
from torch import Tensor

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.verify.sampler import NOT_FINITE, Sampler, marked

Coin = Callable[[float], bool]  # heads with this probability
Draw = Callable[[Tensor], int]  # an index, with probabilities proportional to these weights [V]


class Rows:
    """Distributions from processed scores, made where they are asked for: the path visits few of
    the nodes, in order.

    Args:
        scores: gives the processed scores [V] at a row.
    """

    def __init__(self, scores: Callable[[int], Tensor]) -> None:
        self.scores = scores

    def __getitem__(self, row: int) -> Tensor:
        return torch.softmax(self.scores(row).double(), -1).cpu()


def choose(
    tree: TokenTree, nodes: list[int], p_NV: "Tensor | Rows", coin: Coin, draw: Draw
) -> dict[int, int]:
    """The tokens to choose at the nodes of the accepted path; the walk over them accepts what this
    accepted.

    `p_NV` is the target's processed distribution at each of `nodes`. Candidates that were not
    evaluated do not count.
    """
    row, node = {evaluated: number for number, evaluated in enumerate(nodes)}, 0
    chosen: dict[int, int] = {}
    while True:
        accepted, chosen[node] = _try(tree, node, p_NV[row[node]], row, coin, draw)
        if accepted is None:
            return chosen
        node = accepted


def _try(
    tree: TokenTree, node: int, p_V: Tensor, row: dict[int, int], coin: Coin, draw: Draw
) -> tuple[int | None, int]:
    """(child, token) where a candidate below `node` is accepted, else (None, a draw from what is
    left of `p_V`).
    """
    for token, q_V in candidates(tree, node):
        child = tree.child(node, token)
        if child is None or child not in row:
            continue
        drawn_with = 1.0 if q_V is None else float(q_V[token])
        if coin(min(float(p_V[token]) / drawn_with, 1.0)):
            return child, token
        p_V = _rest(p_V, token, q_V)
    return None, draw(p_V)


def candidates(tree: TokenTree, node: int) -> Iterator[tuple[int, Tensor | None]]:
    """Tokens guessed below `node` in order, each with the distribution that it was drawn from
    (None: not drawn).

    Without replacement each token's mass leaves the distribution that the next one was drawn from.
    """
    tokens, q_V, replaced = tree.proposals.get(node, ((), None, True))
    for token in tokens:
        yield token, q_V
        if not replaced and q_V is not None:
            q_V = q_V.clone()
            q_V[token] = 0.0
            q_V /= q_V.sum()
    for parent, token in tree.children:
        if parent == node and token not in tokens:
            yield token, None


def _rest(p_V: Tensor, token: int, q_V: Tensor | None) -> Tensor:
    """norm(max(p - q, 0)), with p's mass on the refused token gone in any case."""
    rest = p_V.clone() if q_V is None else (p_V - q_V).clamp_(min=0.0)
    rest[token] = 0.0
    total = rest.sum()
    if total > 0:
        return rest / total
    rest = p_V.clone()  # refused although p = q up to rounding: nothing is left to subtract
    rest[token] = 0.0
    return rest / rest.sum() if rest.sum() > 0 else p_V


class RejectionSampler(Sampler):
    """Chooses for the target: along the accepted path by rejection, elsewhere the likeliest."""

    def __init__(
        self, params: SamplingParams, stream: Hashable, prompt_length: int, *others: Any
    ) -> None:
        super().__init__(params, stream, prompt_length, *others)
        self.random = random.Random(f"{params.seed}/{stream!r}/verify")

    def __call__(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int], top: int = 1
    ) -> Tensor:
        scores_NV = (
            self.pipeline(logits_NV, context, tree, nodes) if self.pipeline.changes else logits_NV
        )
        self.scores_NV, highest = scores_NV, scores_NV.amax(-1, keepdim=True)
        if not bool(highest.isfinite().all()):
            return marked(scores_NV.argmax(-1, keepdim=True), highest)
        best = scores_NV.argmax(-1)
        if self.pipeline.in_order:
            self.scores_NV = scores_NV = scores_NV.clone()

        def scores(row: int) -> Tensor:
            if self.pipeline.in_order:
                logits_1V = logits_NV[row : row + 1]
                scores_NV[row] = self.pipeline.in_text(logits_1V, context, tree, nodes[row])[0]
            return scores_NV[row]

        chosen = choose(
            tree, nodes, Rows(scores), lambda chance: self.random.random() < chance, self._draw
        )
        for number, node in enumerate(nodes):
            if node in chosen:
                best[number] = chosen[node]
        if self.pipeline.in_order:
            return marked(best[:, None], scores_NV.amax(-1, keepdim=True))
        return best[:, None]

    def _draw(self, weights_V: Tensor) -> int:
        sums = weights_V.cumsum(-1)
        place = int(torch.searchsorted(sums, self.random.random() * float(sums[-1]), right=True))
        last = int(weights_V.nonzero()[-1])
        return min(place, last)


class DraftSampler(Sampler):
    """Draws for a draft: fresh noise at every call, so that no draw depends on what became of
    another.
    """

    def __init__(
        self, params: SamplingParams, stream: Hashable, prompt_length: int, *others: Any
    ) -> None:
        super().__init__(params, stream, prompt_length, *others)
        self.origin, self.calls = stream, 0

    def __call__(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int], top: int = 1
    ) -> Tensor:
        self.sampled_from = self.distribution(logits_NV, context, tree, nodes)
        self.scores_NV = self.sampled_from.log()
        sound = self.sampled_from.isfinite().all(-1, keepdim=True)
        drawn = []
        for _ in range(top if self.replaced else 1):
            self.calls += 1
            self.stream = ("draft", self.origin, self.calls)
            columns = torch.arange(logits_NV.shape[-1], device=logits_NV.device)
            scores = self.scores_NV + self.noise(tree, nodes, len(context), columns)
            drawn.append(scores.topk(1 if self.replaced else top, -1).indices)
        return torch.cat(drawn, -1).masked_fill(~sound, NOT_FINITE)
