"""Tokens that a model forbids itself: logits of -inf, which are neither damage nor a difference.

Shapes: N rows, V vocabulary.
"""

import torch
from torch import Tensor


def levelled(one_NV: Tensor, other_NV: Tensor) -> tuple[Tensor, Tensor]:
    """Two sets of logits that can be subtracted: a token that both forbid (-inf, as a head's bias
    gives it to padding) gets the least finite logit of the first one's row in both.

    NaN, +inf and what only one of them forbids stay, so their difference is not finite.
    """
    forbidden_NV = one_NV.isneginf() & other_NV.isneginf()
    least_N1 = one_NV.masked_fill(~one_NV.isfinite(), torch.inf).amin(-1, keepdim=True)
    return (
        torch.where(forbidden_NV, least_N1, one_NV),
        torch.where(forbidden_NV, least_N1, other_NV),
    )
