"""The innermost backend: a model's own code, with what makes it faster on a CPU bit for bit."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from leapdecode.model.backend import HALF, Backend, RowForward
from leapdecode.model.exactness import Exactness
from leapdecode.model.folded_attention import FOLDED, folds
from leapdecode.model.half_linear import BLOCK, GRAIN, half_linears
from leapdecode.model.llama_layers import llama_layers


class Eager(Backend):
    """The model as it is; on a CPU layers of Llama's form are one function each, and heads that
    share keys are rows of one head.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        super().__init__()
        self.folds = folds(model, device)
        self.layers = llama_layers(model) if self.folds else None

    def logits(self, forward: RowForward) -> Tensor:
        with contextlib.ExitStack() as stack:
            if self.folds:
                stack.enter_context(FOLDED)
            if self.layers is not None and forward.as_loaded:
                stack.enter_context(self.layers)
            logits: Tensor = forward.model(**forward.arguments).logits
        return logits

    def note_change(self, model: Any, everything: bool) -> None:
        if everything and self.folds:
            self.layers = llama_layers(model)


class HalfRows(Backend):
    """Forwards of numbers of rows that suit half weights, which FBGEMM multiplies by six at a time;
    else each layer would pad them by itself.
    """

    def __init__(self, inside: Backend) -> None:
        super().__init__(inside)
        self.weights = (*self.weights, HALF)

    def padded(self, rows: int, batch: int, exact: Exactness | None) -> int:
        rows = super().padded(rows, batch, exact)
        return rows + -rows % GRAIN if batch == 1 and rows > BLOCK else rows


def eager(model: Any, device: torch.device) -> Backend:
    """The backend of a model as it was loaded."""
    backend = Eager(model, device)
    return HalfRows(backend) if half_linears(model) else backend
