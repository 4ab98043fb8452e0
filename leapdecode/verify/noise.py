"""Counter-based Gumbel noise: a function of (seed, stream, position, token id) alone."""

import hashlib
import math
from collections.abc import Hashable

import torch
from torch import Tensor

HIGHEST, LOWEST = 36.75, -3.61  # -log(-log u) for u = 1 - 2**-53 and u = 2**-53

_GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
_MIX_2 = 0x94D049BB133111EB - (1 << 64)


def counter_key(seed: int, stream: Hashable, position: int) -> int:
    """A 64-bit key, as a signed integer, for the noise of one position of one stream."""
    digest = hashlib.blake2b(repr((seed, stream, position)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def _shift(bits: Tensor, by: int) -> Tensor:
    return (bits >> by) & ((1 << (64 - by)) - 1)


def gumbel_of(key: int, token: int) -> float:
    """The noise of one token, as `gumbel` gives it up to rounding, without a tensor."""
    whole = (1 << 64) - 1
    bits = (key + (token + 1) * _GOLDEN) & whole
    bits = ((bits ^ bits >> 30) * _MIX_1) & whole
    bits = ((bits ^ bits >> 27) * _MIX_2) & whole
    bits ^= bits >> 31
    return -math.log(-math.log(((bits >> 12) + 0.5) * 2.0**-52))


def uniform(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] float64 uniforms in (0, 1) for D keys and K token ids: splitmix64's finaliser over key
    + id * golden.
    """
    bits = keys_D[:, None] + (tokens_K[None, :] + 1) * _GOLDEN
    bits = (bits ^ _shift(bits, 30)) * _MIX_1
    bits = (bits ^ _shift(bits, 27)) * _MIX_2
    bits = bits ^ _shift(bits, 31)
    return (_shift(bits, 12).double() + 0.5) * 2.0**-52


def gumbel(keys_D: Tensor, tokens_K: Tensor) -> Tensor:
    """[D, K] standard Gumbel noise in float64, between `LOWEST` and `HIGHEST`."""
    return -torch.log(-torch.log(uniform(keys_D, tokens_K)))
