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
    """[D, K] float64 uniforms in (0, 1)."""
    return (_bits(keys_D[:, None], tokens_K[None, :]).double() + 0.5) * 2.0**-BITS


def _bits(keys: Tensor, tokens: Tensor) -> Tensor:
    """Whole numbers of `BITS` bits, of keys and tokens that broadcast: splitmix64's finaliser over
    key + id * golden.
    """
    bits = keys + (tokens + 1) * GOLDEN
    bits = bits.bitwise_xor_(_shift(bits, 30)).mul_(MIX_1)
    bits = bits.bitwise_xor_(_shift(bits, 27)).mul_(MIX_2)
    bits = bits.bitwise_xor_(_shift(bits, 31))
    return _shift(bits, 64 - BITS)


def gumbel(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] standard Gumbel noise in float64, between `LOWEST` and `HIGHEST`."""
    return -torch.log(-torch.log(uniform(keys_D, tokens_K)))


def gumbel_at(keys_N: Tensor, tokens_NK: Tensor) -> Tensor:
    """[N, K] the same for other tokens with every key."""
    uniforms_NK = (_bits(keys_N[:, None], tokens_NK).double() + 0.5) * 2.0**-BITS
    return -torch.log(-torch.log(uniforms_NK))


def noise_of(key: int, tokens_K: Tensor) -> Tensor:
    """[K] the noise of one position."""
    return gumbel(torch.tensor([key]), tokens_K)[0]


def reaches(keys_D: Tensor, tokens_K: Tensor, least_D: Tensor) -> Tensor:
    """[D, K] whether a token's noise may be `least_D` or more: all of those, and hardly another.

    Noise grows with the uniform it is made of, so no logarithm is taken.
    """
    bound_D = (torch.exp(-torch.exp(-least_D)) * 2.0**BITS).floor().long() - 2
    return _bits(keys_D[:, None], tokens_K[None, :]) >= bound_D[:, None]
