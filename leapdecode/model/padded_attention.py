"""Attention over more query rows than a forward has, where bits ask for it.

Kernels of attention are chosen by the rows of a sequence, those of all other layers by the rows of
the whole forward. So in a batch attention alone is padded: a mask with more rows than there are
queries says how far, and what the padded rows give is dropped.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class PaddedAttention:
    """Inside its `with` block `scaled_dot_product_attention` pads queries to the rows of its mask.

    Another thread's attention runs through it meanwhile, and has masks of as many rows as queries.
    """

    def __init__(self) -> None:
        self.lock, self.depth = threading.RLock(), 0
        self.attend: Any = functional.scaled_dot_product_attention

    def __enter__(self) -> None:
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.attend = functional.scaled_dot_product_attention
                functional.scaled_dot_product_attention = self.padded

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                functional.scaled_dot_product_attention = self.attend

    def padded(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
        *rest: Any, **options: Any,
    ) -> Tensor:  # fmt: skip
        """[..., R, D] for queries [..., R, D] and a mask of R rows or more."""
        rows = query.shape[-2]
        extra = 0 if attn_mask is None else attn_mask.shape[-2] - rows
        if extra > 0:
            query = functional.pad(query, (0, 0, 0, extra))
        found: Tensor = self.attend(query, key, value, attn_mask, *rest, **options)
        return found[..., :rows, :]


PADDED = PaddedAttention()


def with_rows(mask: Tensor | dict[str, Tensor], extra: int) -> Tensor | dict[str, Tensor]:
    """A mask [B, 1, R, S], or one per layer type, with `extra` more rows that see everything."""
    if isinstance(mask, dict):
        return {kind: functional.pad(one, (0, 0, 0, extra)) for kind, one in mask.items()}
    return functional.pad(mask, (0, 0, 0, extra))


def can_pad(model: torch.nn.Module) -> bool:
    """Whether the model's attention goes through `scaled_dot_product_attention`."""
    return getattr(model.config, "_attn_implementation", None) == "sdpa"
