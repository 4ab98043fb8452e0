"""The block mask: clean text, and noisy blocks that stand beside it at positions of their own.

Every token of a forward has a position, a block and a limit. A token of the clean text is in block
`CLEAN` and sees the clean text up to itself. A token of a noisy block sees the clean text before
its limit, and its own block up to itself. So a noisy block reads as if it were the text's end,
wherever it stands in the forward. Collecting and training use the same rule.

Shapes: B sequences, R rows that are evaluated, S keys that they may see.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from leapdecode.model.masks import MaskForm

CLEAN, PAD, UNUSED = -1, -2, -3  # noisy blocks are numbered from 0; nobody sees what is unused


@dataclass(frozen=True)
class Places:
    """Where tokens stand: positions, blocks and limits, [B, R] each."""

    positions: Tensor
    blocks: Tensor
    limits: Tensor


def visible(rows: Places, keys: Places) -> Tensor:
    """Which keys every row sees, bool [B, R, S]. Padding sees padding, so no row sees nothing."""
    row_block, key_block = rows.blocks[:, :, None], keys.blocks[:, None, :]
    row_position, key_position = rows.positions[:, :, None], keys.positions[:, None, :]
    text = (key_block == CLEAN) & (key_position < rows.limits[:, :, None])
    own = (key_block == row_block) & (row_block != CLEAN) & (key_position <= row_position)
    return text | own


def block_mask(
    form: MaskForm, rows: Places, keys: Places, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """The additive mask [B, 1, R, S] as the model takes it: one, or one per layer type.

    0 is visible and the dtype's minimum is hidden. Layers with a sliding window of `w` do not see
    keys `w` or more positions back.
    """
    seen = visible(rows, keys)
    back = rows.positions[:, :, None] - keys.positions[:, None, :]
    made = {kind: additive(seen & (back < w) if w else seen, dtype) for kind, w in form.windows}
    return made if len(made) > 1 else next(iter(made.values()))


def additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """A bool mask [B, R, S] as [B, 1, R, S] of zeros and the dtype's minimum."""
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device)
    return mask.masked_fill_(~seen, torch.finfo(dtype).min)[:, None]
