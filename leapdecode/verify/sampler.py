"""The choice: one next token at every node, the argmax or, under sampling, the Gumbel-max draw.

Shapes: N nodes, V vocabulary, D distinct depths, K candidate tokens.
"""

from collections.abc import Callable, Collection, Hashable

import torch
from torch import Tensor

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.verify.counter import counter_key
from leapdecode.verify.noise import gumbel, reaching
from leapdecode.verify.processors import Pipeline

NOT_FINITE = -2  # the choice at a node whose logits are not finite
NEAREST = 64  # greatest logits of a node, which get their noise in any case
BLOCK = 256  # tokens of a vocabulary whose greatest logit is found at a time


class Sampler:
    """Chooses for one sequence on one model; keeps token counts for the penalties, nothing that
    changes a text.

    Where processors must be called in order, the choices are the text's own along the path that the
    text takes through the tree, and elsewhere those without processors, as guesses for methods to
    learn from.

    Args:
        ends: tokens that end the text.
        agreed: gives the token of the first of all processes, which must take one path.
    """

    # Of those who draw for the rejection verifier: may several draws at a node repeat; [N, V] what
    # was drawn from.
    replaced: bool = False
    sampled_from: Tensor | None = None
    likeliest: int = 0  # how many of the greatest logits are asked for beside the choice
    scores_NV: Tensor | None = None  # the last call's logits after the pipeline
    # its greatest and their tokens, best first, [N, K] each, where they were looked for
    nearest: tuple[Tensor, Tensor] | None = None
    # not finite where the last call's logits are not, and it did not say so itself
    evidence_N1: Tensor | None = None
    first_chain: bool = False  # whether the text takes nodes of a tree's first chain alone

    def __init__(
        self,
        params: SamplingParams,
        stream: Hashable,
        prompt_length: int,
        guesses: bool = False,
        ends: Collection[int] = (),
        agreed: Callable[[int], int] = int,
    ) -> None:
        self.params, self.stream, self.ends, self.agreed = params, stream, ends, agreed
        self.pipeline = Pipeline(params, prompt_length, guesses)

    def distribution(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int]
    ) -> Tensor:
        """[N, V] processed probabilities in float64."""
        scores = (
            self.pipeline(logits_NV, context, tree, nodes) if self.pipeline.changes else logits_NV
        )
        return torch.softmax(scores.double(), -1)

    def scores(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int]
    ) -> Tensor:
        """[N, V] what the choice maximises: processed logits, and noise where it samples."""
        scores = (
            self.pipeline(logits_NV, context, tree, nodes) if self.pipeline.changes else logits_NV
        )
        if self.params.greedy:
            return scores
        return scores.double() + self.noise(tree, nodes, len(context), _columns(scores))

    def __call__(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int], top: int = 1
    ) -> Tensor:
        """[N, top] token ids, best first, for `nodes` of `tree`, whose root is the last token of
        `context`.

        Where a node's logits are not finite, or its tokens are all forbidden, its token means
        nothing: `evidence_N1` shows it. Whoever reads both on the host saves the operations that
        would put `NOT_FINITE` there.
        """
        scores = logits_NV
        if self.pipeline.changes:
            scores = self.pipeline(logits_NV, context, tree, nodes)
        chosen = self._chosen(logits_NV, scores, context, tree, nodes, top)
        if self.pipeline.in_order and not self.pipeline.guesses:
            self._follow(chosen, logits_NV, context, tree, nodes)
        return chosen

    def _follow(
        self,
        chosen: Tensor,
        logits_NV: Tensor,
        context: list[int],
        tree: TokenTree,
        nodes: list[int],
    ) -> None:
        """Put in place the choices along the text's path, for which processors are called in order.

        The path ends before logits that are not finite: they are computed again first.
        """
        assert self.scores_NV is not None
        assert self.evidence_N1 is not None
        scores_NV, evidence_N1 = self.scores_NV.clone(), self.evidence_N1.clone()
        row_of = {node: row for row, node in enumerate(nodes)}
        path, node = [0], 0
        while True:
            row = slice(row_of[node], row_of[node] + 1)
            if not logits_NV[row].amax().isfinite():
                break
            scores = self.pipeline.in_text(logits_NV[row], context, tree, node)
            chosen[row] = self._chosen(
                logits_NV[row], scores, context, tree, [node], chosen.shape[1]
            )
            scores_NV[row], evidence_N1[row] = scores, self.evidence_N1
            token = self.agreed(int(chosen[row, 0]))
            child = tree.child(node, token)
            if child not in row_of or token in self.ends:
                break
            if self.first_chain and child != len(path):
                break
            path.append(child)
            node = child
        self.scores_NV, self.evidence_N1, self.nearest = scores_NV, evidence_N1, None

    def _chosen(
        self,
        logits_NV: Tensor,
        scores: Tensor,
        context: list[int],
        tree: TokenTree,
        nodes: list[int],
        top: int,
    ) -> Tensor:
        """[N, top] as `__call__`, for scores after the pipeline."""
        self.scores_NV, self.nearest = scores, None
        if self.params.greedy:
            highest, best = self._greedy(scores, top)
            self.evidence_N1 = (
                highest + logits_NV.gather(-1, best) if self.pipeline.changes else highest
            )[:, :1]
            return best
        if top == 1 and scores.device.type == "cpu":
            return self._drawn(scores, len(context), tree, nodes)
        self.evidence_N1 = highest = scores.amax(-1, keepdim=True)
        scores = scores.masked_fill(~highest.isfinite(), 0.0)
        perturbed = scores.double() + self.noise(tree, nodes, len(context), _columns(scores))
        return perturbed.topk(top, -1).indices

    def _greedy(self, scores_NV: Tensor, top: int) -> tuple[Tensor, Tensor]:
        """[N, top] the greatest logits and their tokens, of equal ones the first if `top` is 1."""
        if top > 1:
            return scores_NV.topk(top, -1)
        if self.likeliest and scores_NV.device.type == "cpu":
            self.nearest = values_NK, tokens_NK = greatest(scores_NV, self.likeliest)
            highest_N1 = values_NK[:, :1]
            if not (values_NK[:, -1:] == highest_N1).any():  # else the first may be beyond them
                width = scores_NV.shape[-1]
                tokens_NK = tokens_NK.masked_fill(values_NK < highest_N1, width)
                return highest_N1, tokens_NK.amin(-1, keepdim=True)
        # on a CPU max is five times as fast as argmax in bfloat16
        return scores_NV.max(-1, keepdim=True)

    def _drawn(self, scores_NV: Tensor, length: int, tree: TokenTree, nodes: list[int]) -> Tensor:
        """[N, 1] the tokens of the greatest logit + noise, with noise for few tokens alone.

        What is not finite is among the greatest logits of its node, so it shows there.

        Where the greatest sum among a node's `NEAREST` greatest logits is s, and the least of them
        b, another token wins only with noise of s - b at least. Which tokens have so much shows
        without a logarithm. Finding them would make a GPU wait.
        """
        keys_D, place_N = self._keys(tree, nodes, length)
        count = min(NEAREST, scores_NV.shape[-1])
        self.nearest = greatest(scores_NV, count)
        self.evidence_N1 = highest_N1 = self.nearest[0][:, :1]
        if not highest_N1.isfinite().all():
            scores_NV = scores_NV.masked_fill(~highest_N1.isfinite(), 0.0)
            self.nearest = greatest(scores_NV, count)
        values_NK, tokens_NK = self.nearest
        sums_NK = values_NK.double() + gumbel(keys_D[place_N], tokens_NK)
        most_N, at_N = sums_NK.max(-1)
        chosen_N = tokens_NK.gather(-1, at_N[:, None]).squeeze(-1)
        needed_D = torch.full((len(keys_D),), torch.inf, dtype=torch.double)
        needed_D.scatter_reduce_(0, place_N, most_N - values_NK[:, -1].double(), "amin")
        columns_K = reaching(keys_D.tolist(), scores_NV.shape[1], needed_D.tolist())
        if len(columns_K):
            noise_NK = gumbel(keys_D, columns_K)[place_N]
            lucky_N, at_N = (scores_NV[:, columns_K].double() + noise_NK).max(-1)
            chosen_N = torch.where(lucky_N > most_N, columns_K[at_N], chosen_N)
        return chosen_N[:, None]

    def noise(self, tree: TokenTree, nodes: list[int], length: int, columns_K: Tensor) -> Tensor:
        """[N, K] Gumbel noise of `nodes`, by their positions; computed once per distinct depth."""
        keys_D, place_N = self._keys(tree, nodes, length, columns_K.device)
        return gumbel(keys_D, columns_K)[place_N]

    def _keys(
        self, tree: TokenTree, nodes: list[int], length: int, device: torch.device | None = None
    ) -> tuple[Tensor, Tensor]:
        """[D] the noise's keys of all depths, and [N] the place of each node's among them."""
        depths = [tree.depths[node] for node in nodes]
        distinct = sorted(set(depths))
        keys = [counter_key(self.params.seed, self.stream, length + depth) for depth in distinct]
        place = {depth: number for number, depth in enumerate(distinct)}
        places = torch.tensor([place[depth] for depth in depths], device=device)
        return torch.tensor(keys, device=device), places


def greatest(scores_NV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` greatest values of each row, best first, and their places: `topk`, up to
    three times as fast on a CPU, where among equal values others may be taken.

    The greatest values stand in the blocks of the greatest maxima.
    """
    rows, width = scores_NV.shape
    blocks = width // BLOCK
    if scores_NV.device.type != "cpu" or blocks < 4 * count:
        return scores_NV.topk(count, -1)
    whole = blocks * BLOCK
    blocks_NCK = scores_NV[:, :whole].view(rows, blocks, BLOCK)
    first_NC1 = blocks_NCK.amax(-1).topk(count, -1).indices[:, :, None]
    values = blocks_NCK.gather(1, first_NC1.expand(-1, -1, BLOCK)).flatten(1)
    places = (first_NC1 * BLOCK + torch.arange(BLOCK)).flatten(1)
    if whole < width:
        values = torch.cat([values, scores_NV[:, whole:]], -1)
        places = torch.cat([places, torch.arange(whole, width).expand(rows, -1)], -1)
    values, found = values.topk(count, -1)
    return values, places.gather(-1, found)


def _columns(scores_NV: Tensor) -> Tensor:
    """[V] all token ids."""
    return torch.arange(scores_NV.shape[-1], device=scores_NV.device)


def marked(tokens: Tensor, evidence_N1: Tensor) -> Tensor:
    """`tokens` [N, top], with `NOT_FINITE` in rows whose evidence is not finite."""
    return tokens.masked_fill(~evidence_N1.isfinite(), NOT_FINITE)
