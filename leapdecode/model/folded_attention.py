"""Attention of few rows: heads that share keys are rows of one head, and rows may be padded.

Where query heads share keys and values, transformers copies these once per head as soon as a
forward has more than one row. With eight texts of 500 tokens these copies took two fifths of a step
of two rows each. Here the heads of a group become rows of one head instead:

    queries [B, G x H, R, D] -> [B, H, G x R, D],   mask [B, 1, R, S] -> [B, 1, G x R, S].

Kernels of attention are chosen by the rows of a sequence, those of all other layers by the rows of
the whole forward. So in a batch under exact decoding attention alone is padded: a mask with more
rows than there are queries says how far, and what the padded rows give is dropped.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

MOST_BYTES = 1 << 28  # of a mask; larger ones stay as they are, and keys are copied
NAME = "sdpa"
OTHER = ("position_bias", "cache", "softcap", "output_attentions")  # options not known here


class FoldedAttention:
    """Inside its `with` block models whose attention is "sdpa" compute it so.

    Another thread's attention runs through it meanwhile, and gives what it gives anyway. What
    another library has registered as "sdpa" is used as it is, and is there again afterwards.
    """

    def __init__(self) -> None:
        self.lock, self.depth = threading.RLock(), 0
        self.usual: Any = None
        self.registered: Any = None  # in transformers' table itself, behind which stand defaults
        self.own = threading.local()  # masks of this thread's forward: the next one may change them

    def __enter__(self) -> None:
        self.own.masks = {}
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self.usual = ALL_ATTENTION_FUNCTIONS[NAME]
                self.registered = ALL_ATTENTION_FUNCTIONS._local_mapping.get(NAME)
                ALL_ATTENTION_FUNCTIONS[NAME] = self.attend

    def __exit__(self, *_: object) -> None:
        self.own.masks = None
        with self.lock:
            self.depth -= 1
            if self.depth > 0 or ALL_ATTENTION_FUNCTIONS[NAME] != self.attend:
                return  # somebody has registered another one meanwhile: it stays
            if self.registered is None:
                del ALL_ATTENTION_FUNCTIONS[NAME]
            else:
                ALL_ATTENTION_FUNCTIONS[NAME] = self.registered
            self.registered = None

    def attend(
        self, module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor,
        attention_mask: Tensor | None, dropout: float = 0.0, scaling: float | None = None,
        is_causal: bool | None = None, **options: Any,
    ) -> tuple[Tensor, None]:  # fmt: skip
        """[B, R, G x H, D] for queries [B, G x H, R, D], keys and values [B, H, S, D] and a mask
        [B, 1, R or more, S].
        """
        rows, groups = query.shape[2], query.shape[1] // key.shape[1]
        known = self.usual is sdpa_attention_forward
        known = known and not any(options.get(name) is not None for name in OTHER)
        if attention_mask is None or not known or not _small(attention_mask, groups):
            if is_causal is not None:
                options["is_causal"] = is_causal
            if attention_mask is not None and attention_mask.shape[2] > rows:
                attention_mask = attention_mask[:, :, :rows]  # without what would be padded
            output: tuple[Tensor, None] = self.usual(
                module,
                query,
                key,
                value,
                attention_mask,
                dropout=dropout,
                scaling=scaling,
                **options,
            )
            return output
        padded = attention_mask.shape[2]
        query = functional.pad(query, (0, 0, 0, padded - rows)) if padded > rows else query
        folded = query.reshape(query.shape[0], key.shape[1], groups * padded, query.shape[3])
        mask = self._mask(attention_mask, groups)
        heads = functional.scaled_dot_product_attention(
            folded, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
        )
        heads = heads.reshape(heads.shape[0], -1, padded, value.shape[3])
        return heads[:, :, :rows].transpose(1, 2).contiguous(), None

    def _mask(self, mask: Tensor, groups: int) -> Tensor:
        """`mask` once per head of a group; made once for all layers of a forward."""
        if groups == 1:
            return mask
        masks = getattr(self.own, "masks", None)
        if masks is None:  # a forward of another program's thread
            return mask.repeat(1, 1, groups, 1)
        if (id(mask), groups) not in masks:
            # the mask is kept, too, so that no other one gets its id
            masks[id(mask), groups] = (mask, mask.repeat(1, 1, groups, 1))
        folded: Tensor = masks[id(mask), groups][1]
        return folded


FOLDED = FoldedAttention()


def _small(mask: Tensor, groups: int) -> bool:
    """Whether a mask shared by all heads may stand once per head of a group."""
    return mask.shape[1] == 1 and groups * mask.numel() * mask.element_size() <= MOST_BYTES


def folds(model: torch.nn.Module, device: torch.device) -> bool:
    """Whether forwards of `model` are to run in the block: measured on CPUs alone."""
    return device.type == "cpu" and getattr(model.config, "_attn_implementation", None) == NAME


def with_rows(mask: Tensor | dict[str, Tensor], extra: int) -> Tensor | dict[str, Tensor]:
    """A mask [B, 1, R, S], or one per layer type, with `extra` more rows that see everything."""
    if isinstance(mask, dict):
        return {kind: functional.pad(part, (0, 0, 0, extra)) for kind, part in mask.items()}
    return functional.pad(mask, (0, 0, 0, extra))
