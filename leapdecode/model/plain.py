"""Plain decoding with the model's own cache and generation protocol, for models that cannot verify trees."""

import time
from typing import Any

import torch

from leapdecode.core import Commit, Forward, Sequence, TokenTree
from leapdecode.model.lines import Raw
from leapdecode.model.traits import context_length, text_config


class PlainRunner:
    """Serves `autoregressive` alone: every tree it is asked for is a root."""

    def __init__(self, model: Any, reason: str) -> None:
        self.model, self.reason = model, reason
        self.max_length, self.note = context_length(text_config(model))
        self.vocabulary = model.get_input_embeddings().num_embeddings
        self.device = model.get_input_embeddings().weight.device

    def open(self, rows: int, slots: int) -> "PlainLines":
        return PlainLines(self)


class PlainLines:
    """Per sequence the model's own keyword arguments (cache, masks, states), carried from forward to forward."""

    def __init__(self, runner: PlainRunner) -> None:
        self.runner = runner
        self.states: dict[int, dict[str, Any]] = {}

    def close(self) -> None:
        self.states.clear()

    def join(self, sequence: Sequence) -> None:
        self.states[sequence.id] = {}

    def leave(self, sequence: Sequence) -> None:
        del self.states[sequence.id]

    def commit(self, requests: list[Commit]) -> None:
        """Nothing moves: a root is contiguous."""

    def tree(self, sequence: Sequence) -> TokenTree | None:
        """None is kept."""
        return None

    def follow(self, accepted: Commit, tree: TokenTree | None) -> None:
        """Nothing runs ahead of the text."""

    @torch.inference_mode()
    def forward(self, requests: list[Forward]) -> list[Raw]:
        return [self._one(request) for request in requests]

    def _one(self, request: Forward) -> Raw:
        model, text = self.runner.model, request.sequence.tokens
        state, first = self.states[request.sequence.id], request.sequence.stats.target_forwards == 0
        ids = torch.tensor([text], device=self.runner.device)
        if first:
            state = {"attention_mask": torch.ones_like(ids), "use_cache": True}
        began = time.perf_counter()
        fed = ids if first else ids[:, -1:]
        inputs = model.prepare_inputs_for_generation(
            fed, next_sequence_length=fed.shape[1], is_first_iteration=first, **state
        )
        output = model(**inputs, return_dict=True)
        self.states[request.sequence.id] = model._update_model_kwargs_for_generation(output, state)
        rows = len(text) if first else 1
        return Raw(output.logits[0, -1:], [0], text, rows, rows, 0, time.perf_counter() - began, 0.0)
