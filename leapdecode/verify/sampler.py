"""The choice: one next token at every node, the argmax or, under sampling, the Gumbel-max draw.

Shapes: N nodes, V vocabulary, D distinct depths, K candidate tokens.
"""

from collections.abc import Hashable

import torch
from torch import Tensor

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.verify.counter import counter_key
from leapdecode.verify.noise import HIGHEST, LOWEST, gumbel
from leapdecode.verify.processors import Pipeline

NOT_FINITE = -2  # the choice at a node whose logits are not finite


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
        """[N, V] what the choice maximises: processed logits, or log-probability + noise."""
        scores = (
            self.pipeline(logits_NV, context, tree, nodes) if self.pipeline.changes else logits_NV
        )
        return (
            scores if self.params.greedy else self._perturbed(scores, len(context), tree, nodes)[0]
        )

    def __call__(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int], top: int = 1
    ) -> Tensor:
        """[N, top] token ids, best first, for `nodes` of `tree`, whose root is the last token of
        `context`.

        Where a node's logits are not finite, or its tokens are all forbidden, its token means
        nothing: `evidence_N1` shows it. Whoever reads both on the host saves the operations that
        would put `NOT_FINITE` there.
        """
        scores, columns = logits_NV, None
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
        highest = scores.amax(-1, keepdim=True)
        scores = scores.masked_fill(~highest.isfinite(), 0.0)
        scores, columns = self._perturbed(scores, len(context), tree, nodes, cut=top == 1)
        best = scores.argmax(-1, keepdim=True) if top == 1 else scores.topk(top, -1).indices
        self.evidence_N1 = highest
        return best if columns is None else columns[best]

    def _perturbed(
        self, scores_NV: Tensor, length: int, tree: TokenTree, nodes: list[int], cut: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """[N, K] log-probabilities + noise, and the K columns they belong to (None: all).

        Cutting is exact: a token further below its row's maximum than the noise reaches cannot win.
        On a GPU finding the columns would cost a synchronisation, so all are kept.
        """
        scores = torch.log_softmax(scores_NV.double(), -1)
        columns = torch.arange(scores.shape[-1], device=scores.device)
        cut = cut and scores.device.type == "cpu"
        if cut:
            reach = scores.amax(-1, keepdim=True) - (HIGHEST - LOWEST)
            columns = (scores >= reach).any(0).nonzero().squeeze(-1)
            scores = scores[:, columns]
        return scores + self.noise(tree, nodes, length, columns), columns if cut else None

    def noise(self, tree: TokenTree, nodes: list[int], length: int, columns_K: Tensor) -> Tensor:
        """[N, K] Gumbel noise of `nodes`, by their positions; computed once per distinct depth."""
        depths = [tree.depths[node] for node in nodes]
        distinct = sorted(set(depths))
        keys = [counter_key(self.params.seed, self.stream, length + depth) for depth in distinct]
        noise_DK = gumbel(torch.tensor(keys, device=columns_K.device), columns_K)
        place = {depth: number for number, depth in enumerate(distinct)}
        return noise_DK[torch.tensor([place[depth] for depth in depths], device=columns_K.device)]


def marked(tokens: Tensor, evidence_N1: Tensor) -> Tensor:
    """`tokens` [N, top], with `NOT_FINITE` in rows whose evidence is not finite."""
    return tokens.masked_fill(~evidence_N1.isfinite(), NOT_FINITE)
