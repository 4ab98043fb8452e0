"""Logits processors at every node, each with its own path as context.

Shapes: N nodes, V vocabulary.
"""

from typing import Any

import torch
from torch import Tensor
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from leapdecode.core import SamplingParams, TokenTree
from leapdecode.errors import OptionError
from leapdecode.verify.custom import is_pure


class Pipeline:
    """All changes to the logits of one sequence, in the order that `SamplingParams` documents.

    Args:
        guesses: whether no node is the text itself, as for a draft.

    Attributes:
        in_order: whether a processor must be called once per token of the text, in order: then
            calls leave all processors out, and `in_text` does not.
    """

    def __init__(self, params: SamplingParams, prompt_length: int, guesses: bool = False) -> None:
        self.params, self.prompt_length, self.guesses = params, prompt_length, guesses
        self.custom = list(params.logits_processors)
        self.in_order = not all(map(is_pure, self.custom))
        # by length and last token of the texts that processors were called for; of this step alone
        self.answers: dict[tuple[int, int], Tensor] = {}
        self.bias: Tensor | None = None
        self.counts: Tensor | None = None  # [V] how often each token stands in prompt and text
        self.generated_counts: Tensor | None = None  # [V] how often in the generated text alone
        self.counted: list[int] = []
        self.shown: list[int] = []  # the text that `buffer` holds, for custom processors
        self.buffer = torch.empty(0, dtype=torch.long)
        penalties = params.repetition_penalty, params.presence_penalty, params.frequency_penalty
        self.penalised = penalties != (1.0, 0.0, 0.0)
        self.warpers = list(_warpers(params))
        self.changes = bool(params.logit_bias or self.penalised or self.custom or self.warpers)

    def __call__(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int]
    ) -> Tensor:
        """Processed scores [N, V] of `nodes` of `tree`, whose root is `context`'s last token."""
        scores = self._without_custom(logits_NV, context, tree, nodes)
        if self.custom and not self.in_order:
            scores = self._custom(scores, context, tree, nodes)
        return self._warp(scores)

    def in_text(self, logits_1V: Tensor, context: list[int], tree: TokenTree, node: int) -> Tensor:
        """Processed scores [1, V] of a node that the text has reached; the processors are called
        once for it, however often it is asked for.
        """
        text = [*context, *tree.path_tokens(node)]
        self.answers = {key: value for key, value in self.answers.items() if key[0] >= len(context)}
        key = len(text), text[-1]
        if key not in self.answers:
            scores = self._without_custom(logits_1V, context, tree, [node])
            ids = self._text(context, scores.device)
            path = ids.new_tensor([text[len(context) :]])
            self.answers[key] = self._warp(self._processed(torch.cat([ids, path], 1), scores))
        return self.answers[key]

    def _without_custom(
        self, logits_NV: Tensor, context: list[int], tree: TokenTree, nodes: list[int]
    ) -> Tensor:
        is_wide = logits_NV.dtype in (torch.float32, torch.float64)
        scores = logits_NV if is_wide else logits_NV.float()
        if self.params.logit_bias:
            scores = scores + self._bias(scores)
        if self.penalised:
            scores = self._penalise(scores, context, tree, nodes)
        return scores

    def _warp(self, scores: Tensor) -> Tensor:
        for warper in self.warpers:
            scores = warper(None, scores)
        return scores

    def _bias(self, scores: Tensor) -> Tensor:
        if self.bias is None:
            ids = torch.tensor(list(self.params.logit_bias))
            if int(ids.min()) < 0 or int(ids.max()) >= scores.shape[-1]:
                raise OptionError(
                    f"logit_bias names token {int(ids.max())}; token ids go from 0 to "
                    f"{scores.shape[-1] - 1}"
                )
            values = torch.tensor(list(self.params.logit_bias.values()), dtype=scores.dtype)
            bias = torch.zeros(scores.shape[-1], dtype=scores.dtype)
            self.bias = bias.index_put((ids,), values).to(scores.device)
        return self.bias

    def _count(self, context: list[int], scores: Tensor) -> tuple[Tensor, Tensor]:
        """Token counts of `context`, brought up to date from where the last call left them."""
        kept = len(self.counted)
        if self.counts is None or self.generated_counts is None or context[:kept] != self.counted:
            self.counts = torch.zeros(scores.shape[-1], dtype=torch.long, device=scores.device)
            self.generated_counts, kept = self.counts.clone(), 0
        for counts, first in (
            (self.counts, kept),
            (self.generated_counts, max(kept, self.prompt_length)),
        ):
            new = torch.tensor(context[first:], dtype=torch.long, device=scores.device)
            counts.index_add_(0, new, torch.ones_like(new))
        self.counted = list(context)
        return self.counts, self.generated_counts

    def _penalise(
        self, scores: Tensor, context: list[int], tree: TokenTree, nodes: list[int]
    ) -> Tensor:
        all_counts, generated_counts = self._count(context, scores)
        paths = torch.zeros(scores.shape, dtype=torch.long, device=scores.device)
        pairs = [(row, token) for row, node in enumerate(nodes) for token in tree.path_tokens(node)]
        if pairs:
            index = torch.tensor(pairs, device=scores.device)
            paths.index_put_(
                (index[:, 0], index[:, 1]), torch.ones_like(index[:, 0]), accumulate=True
            )
        p = self.params
        if p.repetition_penalty != 1.0:
            penalised = torch.where(
                scores < 0, scores * p.repetition_penalty, scores / p.repetition_penalty
            )
            scores = torch.where(all_counts + paths > 0, penalised, scores)
        counts = (generated_counts + paths).to(scores.dtype)  # else the penalties become float32
        present = counts.clamp(max=1.0)
        return scores - p.presence_penalty * present - p.frequency_penalty * counts

    def _custom(
        self, scores: Tensor, context: list[int], tree: TokenTree, nodes: list[int]
    ) -> Tensor:
        """Nodes of one depth have contexts of one length, so each depth is one call of each
        processor.

        What a processor raises at a guess counts only where the text takes that guess: they are
        called in order from then on.
        """
        by_depth: dict[int, list[int]] = {}
        for row, node in enumerate(nodes):
            by_depth.setdefault(tree.depths[node], []).append(row)
        text, changed = self._text(context, scores.device), scores.clone()
        for depth, rows in sorted(by_depth.items()):
            paths = torch.tensor([tree.path_tokens(nodes[row]) for row in rows]).to(text)
            ids = torch.cat([text.expand(len(rows), -1), paths], 1)
            try:
                changed[rows] = self._processed(ids, scores[rows])
            except Exception:  # a user's processor may raise anything
                if depth == 0 and not self.guesses:
                    raise
                self.in_order = True
                return scores
        return changed

    def _processed(self, ids: Tensor, scores: Tensor) -> Tensor:
        for processor in self.custom:
            scores = processor(ids, scores)
        return scores

    def _text(self, context: list[int], device: torch.device) -> Tensor:
        """[1, length] ids of `context`; a long text is made a tensor once, and grows with what is
        new.
        """
        known = len(self.shown)
        if not known or context[:known] != self.shown:
            self.shown, known = [], 0
            self.buffer = torch.empty(0, dtype=torch.long, device=device)
        if len(context) > len(self.buffer):
            larger = self.buffer.new_empty(2 * len(context))
            larger[:known] = self.buffer[:known]
            self.buffer = larger
        self.buffer[known : len(context)] = torch.tensor(context[known:], dtype=torch.long)
        self.shown = list(context)
        return self.buffer[None, : len(context)]


def _warpers(params: SamplingParams) -> list[Any]:
    if params.greedy:
        return []
    warpers: list[Any] = []
    if params.temperature != 1.0:
        warpers.append(TemperatureLogitsWarper(float(params.temperature)))
    if params.top_k > 0:
        warpers.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1.0:
        warpers.append(TopPLogitsWarper(float(params.top_p)))
    if params.min_p > 0.0:
        warpers.append(MinPLogitsWarper(float(params.min_p)))
    return warpers
