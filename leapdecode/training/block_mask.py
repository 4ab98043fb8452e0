"""The block mask: clean text, and noisy blocks beside it with positions of their own.

Every token of a forward has a position, a block and a limit. A token of the clean text is in block
`CLEAN` and sees the clean text up to itself. A token of a noisy block sees the clean text before
its limit, and its own block up to itself. So a noisy block reads as if it were the text's end,
wherever it stands in the forward. Collecting and training use the same rule.

Shapes: B sequences, R rows that are evaluated, S keys that they may see.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from leapdecode.model.masks import MaskForm

CLEAN, PAD, UNUSED = -1, -2, -3  # noisy blocks are numbered from 0; nothing sees unused keys


@dataclass
class Rows:
    """The rows of one sequence in a forward: per row a token, a position, a block and a limit."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    limits: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def append(self, tokens: Sequence[int], position: int, block: int = CLEAN) -> int:
        """Add tokens from `position` on, clean text or a noisy block; returns the first's row."""
        row = len(self)
        count = len(tokens)
        self.ids += tokens
        self.positions += range(position, position + count)
        self.blocks += [block] * count
        self.limits += (
            range(position + 1, position + count + 1) if block == CLEAN else [position] * count
        )
        return row


@dataclass(frozen=True)
class Places:
    """Where tokens stand: positions, blocks and limits, [B, R] each."""

    positions: Tensor
    blocks: Tensor
    limits: Tensor


def padded(sequences: Sequence[Rows], device: torch.device | None = None) -> tuple[Tensor, Places]:
    """Ids and places of sequences, [B, R] each, aligned at their ends: padding comes first."""
    longest = max(map(len, sequences))

    def tensor(name: str, value: int) -> Tensor:
        rows = [getattr(sequence, name) for sequence in sequences]
        return torch.tensor([[value] * (longest - len(row)) + row for row in rows], device=device)

    places = Places(tensor("positions", 0), tensor("blocks", PAD), tensor("limits", 0))
    return tensor("ids", 0), places


def visible(rows: Places, keys: Places) -> Tensor:
    """Which keys every row sees, bool [B, R, S]. Padding sees padding, so no row sees nothing."""
    row_block, key_block = rows.blocks[:, :, None], keys.blocks[:, None, :]
    row_position, key_position = rows.positions[:, :, None], keys.positions[:, None, :]
    text = (key_block == CLEAN) & (key_position < rows.limits[:, :, None])
    same_block = (key_block == row_block) & (row_block != CLEAN) & (key_position <= row_position)
    return text | same_block


def block_mask(
    form: MaskForm, rows: Places, keys: Places, dtype: torch.dtype
) -> Tensor | dict[str, Tensor]:
    """The additive mask [B, 1, R, S] as the model takes it: one, or one per layer type.

    0 is visible and the dtype's minimum is hidden. Layers with a sliding window of `w` do not see
    keys `w` or more positions back.
    """
    visible_keys = visible(rows, keys)
    distance = rows.positions[:, :, None] - keys.positions[:, None, :]
    masks = {
        kind: additive(visible_keys & (distance < window) if window else visible_keys, dtype)
        for kind, window in form.windows
    }
    return masks if len(masks) > 1 else next(iter(masks.values()))


def additive(visible_keys: Tensor, dtype: torch.dtype) -> Tensor:
    """A bool mask [B, R, S] as [B, 1, R, S] of zeros and the dtype's minimum."""
    mask = torch.zeros(visible_keys.shape, dtype=dtype, device=visible_keys.device)
    return mask.masked_fill_(~visible_keys, torch.finfo(dtype).min)[:, None]
