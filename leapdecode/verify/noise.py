"""Counter-based Gumbel noise: a function of (seed, stream, position, token id) alone.

Shapes: D keys, one per position; K token ids.
"""

import torch
from torch import Tensor

from leapdecode.verify.counter import GOLDEN, MIX_1, MIX_2

BITS = 52  # of a uniform
HIGHEST, LOWEST = 36.75, -3.61  # -log(-log u) for u = 1 - 2**-53 and u = 2**-53


def _shift(bits: Tensor, by: int) -> Tensor:
    return (bits >> by).bitwise_and_((1 << (64 - by)) - 1)


def uniform(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] float64 uniforms in (0, 1), for tokens [K] or, other ones with every key, [D, K]."""
    return (_bits(keys_D, tokens_K).double() + 0.5) * 2.0**-BITS


def _bits(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] whole numbers of `BITS` bits: splitmix64's finaliser over key + id * golden."""
    bits = keys_D[:, None] + (tokens_K + 1) * GOLDEN
    bits = bits.bitwise_xor_(_shift(bits, 30)).mul_(MIX_1)
    bits = bits.bitwise_xor_(_shift(bits, 27)).mul_(MIX_2)
    bits = bits.bitwise_xor_(_shift(bits, 31))
    return _shift(bits, 64 - BITS)


def gumbel(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] standard Gumbel noise in float64, between `LOWEST` and `HIGHEST`; tokens as in
    `uniform`.
    """
    return -torch.log(-torch.log(uniform(keys_D, tokens_K)))


def noise_of(key: int, tokens_K: Tensor) -> Tensor:
    """[K] the noise of one position."""
    return gumbel(torch.tensor([key]), tokens_K)[0]


def reaches(keys_D: Tensor, tokens_K: Tensor, least_D: Tensor) -> Tensor:
    """[D, K] whether a token's noise may be `least_D` or more: all of those, and hardly another.

    Noise grows with the uniform it is made of, so no logarithm is taken.
    """
    bound_D = (torch.exp(-torch.exp(-least_D)) * 2.0**BITS).floor().long() - 2
    return _bits(keys_D, tokens_K) >= bound_D[:, None]
