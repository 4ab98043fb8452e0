"""The choice: one next token at every node, the argmax or, under sampling, the Gumbel-max draw.

Shapes: N nodes, V vocabulary, D distinct depths, K candidate tokens.
"""

from collections.abc import Hashable

import torch
from torch import Tensor

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.verify.counter import counter_key
from leapdecode.verify.noise import gumbel, reaches
from leapdecode.verify.processors import Pipeline

NOT_FINITE = -2  # the choice at a node whose logits are not finite
NEAR = 8.0  # logits within this of the greatest get their noise in any case


class Sampler:
    """Chooses for one sequence on one model; keeps token counts for the penalties, nothing that
    changes a text.
    """

    # Of those who draw for the rejection verifier: may several draws at a node repeat; [N, V] what
    # was drawn from.
    replaced: bool = False
    sampled_from: Tensor | None = None
    scores_NV: Tensor | None = None  # the last call's logits after the pipeline
    # not finite where the last call's logits are not, and it did not say so itself
    evidence_N1: Tensor | None = None

    def __init__(self, params: SamplingParams, stream: Hashable, prompt_length: int) -> None:
        self.params, self.stream = params, stream
        self.pipeline = Pipeline(params, prompt_length)

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
        self.scores_NV = scores
        if self.params.greedy:
            # on a CPU max is five times as fast as argmax in bfloat16
            highest, best = scores.max(-1, keepdim=True) if top == 1 else scores.topk(top, -1)
            self.evidence_N1 = (
                highest + logits_NV.gather(-1, best) if self.pipeline.changes else highest
            )[:, :1]
            return best
        self.evidence_N1 = highest = scores.amax(-1, keepdim=True)
        if scores.is_cuda or not highest.isfinite().all():  # asking a GPU would wait for it
            scores = scores.masked_fill(~highest.isfinite(), 0.0)
            highest = scores.amax(-1, keepdim=True)
        if top == 1 and scores.device.type == "cpu":
            return self._drawn(scores, highest, len(context), tree, nodes)
        perturbed = scores.double() + self.noise(tree, nodes, len(context), _columns(scores))
        return perturbed.topk(top, -1).indices

    def _drawn(
        self,
        scores_NV: Tensor,
        highest_N1: Tensor,
        length: int,
        tree: TokenTree,
        nodes: list[int],
    ) -> Tensor:
        """[N, 1] the tokens of the greatest logit + noise, with noise for few tokens alone.

        Where the greatest sum among tokens near a node's greatest logit is s, a token whose logit
        is below b wins only with noise above s - b. Which tokens have so much shows without a
        logarithm. Finding them would make a GPU wait.
        """
        keys_D, place_N = self._keys(tree, nodes, length)
        bound_N1 = highest_N1 - NEAR
        near_V = (scores_NV >= bound_N1).any(0)
        columns = near_V.nonzero().squeeze(-1)
        sums = scores_NV[:, columns].double() + gumbel(keys_D, columns)[place_N]
        needed_N = sums.amax(-1) - bound_N1.double().squeeze(-1)
        needed_D = torch.full((len(keys_D),), torch.inf, dtype=torch.double)
        needed_D.scatter_reduce_(0, place_N, needed_N, "amin")
        far_V = reaches(keys_D, _columns(scores_NV), needed_D).any(0) & ~near_V
        if far_V.any():
            columns = (near_V | far_V).nonzero().squeeze(-1)
            sums = scores_NV[:, columns].double() + gumbel(keys_D, columns)[place_N]
        return columns[sums.argmax(-1, keepdim=True)]

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


def _columns(scores_NV: Tensor) -> Tensor:
    """[V] all token ids."""
    return torch.arange(scores_NV.shape[-1], device=scores_NV.device)


def marked(tokens: Tensor, evidence_N1: Tensor) -> Tensor:
    """`tokens` [N, top], with `NOT_FINITE` in rows whose evidence is not finite."""
    return tokens.masked_fill(~evidence_N1.isfinite(), NOT_FINITE)
