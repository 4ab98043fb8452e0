"""Counter-based Gumbel noise: a function of (seed, stream, position, token id) alone."""

import torch
from torch import Tensor

from leapdecode.verify.counter import GOLDEN, MIX_1, MIX_2

HIGHEST, LOWEST = 36.75, -3.61  # -log(-log u) for u = 1 - 2**-53 and u = 2**-53


def _shift(bits: Tensor, by: int) -> Tensor:
    return (bits >> by) & ((1 << (64 - by)) - 1)


def uniform(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] float64 uniforms in (0, 1) for D keys and K token ids: splitmix64's finaliser over key
    + id * golden.
    """
    bits = keys_D[:, None] + (tokens_K[None, :] + 1) * GOLDEN
    bits = (bits ^ _shift(bits, 30)) * MIX_1
    bits = (bits ^ _shift(bits, 27)) * MIX_2
    bits = bits ^ _shift(bits, 31)
    return (_shift(bits, 12).double() + 0.5) * 2.0**-52


def gumbel(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] standard Gumbel noise in float64, between `LOWEST` and `HIGHEST`."""
    return -torch.log(-torch.log(uniform(keys_D, tokens_K)))
