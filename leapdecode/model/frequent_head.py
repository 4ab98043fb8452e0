"""A head over a model's most frequent tokens: where the vocabulary dominates a small model's cost.

The folder of such a model is an ordinary one, with the whole head, and a file that lists the
tokens. All others get a logit that no sampling chooses. So a draft never guesses them, and what the
target says is the same.

Shapes: K kept tokens, V vocabulary.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from leapdecode.errors import ModelUnavailable

FILE = "frequent_tokens.json"
NEVER = -1e4  # a logit that float16 can hold


class FrequentHead(torch.nn.Module):
    """[..., V] logits: those of a linear layer for K tokens, `NEVER` for the others."""

    def __init__(self, rows: torch.nn.Linear, tokens: Tensor, vocabulary: int) -> None:
        super().__init__()
        self.rows, self.vocabulary = rows, vocabulary
        self.register_buffer("tokens", tokens, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        few = self.rows(hidden)
        whole = few.new_full((*few.shape[:-1], self.vocabulary), NEVER)
        return whole.index_copy(-1, self.tokens, few)


def kept_rows(head: Any, tokens: Tensor) -> torch.nn.Linear:
    """A linear layer of the rows of a head that are kept, [K, hidden], on its device."""
    bias = getattr(head, "bias", None)
    rows = torch.nn.Linear(
        head.weight.shape[1], len(tokens), bias is not None, device="meta", dtype=head.weight.dtype
    )
    rows.weight = torch.nn.Parameter(head.weight.detach()[tokens], requires_grad=False)
    if bias is not None:
        rows.bias = torch.nn.Parameter(bias.detach()[tokens], requires_grad=False)
    return rows


def shorten_head(model: Any, tokens: Sequence[int]) -> None:
    """Give a model a head over `tokens` alone."""
    head = model.get_output_embeddings()
    kept = torch.tensor(tokens, device=head.weight.device)
    model.set_output_embeddings(FrequentHead(kept_rows(head, kept), kept, head.weight.shape[0]))


@contextmanager
def shortened(model: Any, tokens: Tensor | None) -> Iterator[None]:
    """Inside, the model's logits are [..., K]: those of `tokens`, in their order. None: of all.

    The head is not trained by what is computed inside; what stands before it is.
    """
    if tokens is None:
        yield
        return
    head = model.get_output_embeddings()
    model.set_output_embeddings(kept_rows(head, tokens.to(head.weight.device)))
    try:
        yield
    finally:
        model.set_output_embeddings(head)


def write_tokens(folder: Path, tokens: Sequence[int] | None) -> None:
    """Say in a model's folder which tokens its head is to be kept to; None: all."""
    listed = None if tokens is None else list(tokens)
    (folder / FILE).write_text(json.dumps(listed) + "\n", encoding="utf-8")


def frequent_tokens(folder: str | Path) -> list[int] | None:
    """The tokens that the head of a folder's model is to be kept to; None where it is whole.

    Raises `ModelUnavailable` for a damaged file.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
        if listed is None:
            return None
        tokens = sorted({int(token) for token in listed})
    except (OSError, ValueError, TypeError):
        tokens = []
    if not tokens or tokens[0] < 0:
        raise ModelUnavailable(f"{path} is damaged: it must list token ids; restore it")
    return tokens
