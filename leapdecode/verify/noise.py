"""Counter-based Gumbel noise: a function of (seed, stream, position, token id) alone.

Shapes: D keys, one per position; K token ids.
"""

import functools
import math

import numpy as np
import torch
from torch import Tensor

from leapdecode.verify.counter import GOLDEN, MIX_1, MIX_2

BITS = 52  # of a uniform
LUCKY = 6.0  # noise that one of 400 tokens has
NEARLY = 1e-9  # more than rounding changes a noise by
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


def reaching(keys: list[int], vocabulary: int, least: list[float]) -> Tensor:
    """[K] token ids, ascending: all whose noise with one of the `keys` is its `least` or more, and
    hardly another.

    A position is looked at in several steps, at first deep in a tree, so what it has much noise for
    is kept.
    """
    found = list[np.ndarray]()
    for key, bound in zip(keys, least, strict=True):
        if bound < LUCKY:
            found.append(_reached(key, vocabulary, bound))
        else:
            tokens, falling = _lucky(key, vocabulary)
            found.append(tokens[: np.searchsorted(falling, NEARLY - bound, side="right")])
    return torch.from_numpy(np.unique(np.concatenate(found)))


@functools.lru_cache(maxsize=512)
def _lucky(key: int, vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens with a noise of `LUCKY` or more, the most first, and its negative."""
    tokens = _reached(key, vocabulary, LUCKY)
    falling = -noise_of(key, torch.from_numpy(tokens)).numpy()
    order = falling.argsort()
    return tokens[order], falling[order]


def _reached(key: int, vocabulary: int, bound: float) -> np.ndarray:
    """Tokens whose noise is `bound` or more, and hardly another.

    Noise grows with the uniform it is made of, so no logarithm is taken. The hash's last step
    leaves its 31 highest bits as they are, so it is left out. Arrays in the cache of one core are
    faster here than tensors.
    """
    bits = _counters(vocabulary) + np.uint64(key % (1 << 64))
    shifted = np.empty_like(bits)
    for shift, factor in ((30, MIX_1), (27, MIX_2)):
        np.right_shift(bits, np.uint64(shift), out=shifted)
        np.bitwise_xor(bits, shifted, out=bits)
        np.multiply(bits, np.uint64(factor % (1 << 64)), out=bits)
    lowest = int(math.exp(-math.exp(min(-bound, 700.0))) * 2.0**64) - (1 << 34)
    return np.flatnonzero(bits >= np.uint64(max(lowest, 0)))


@functools.lru_cache(maxsize=4)
def _counters(vocabulary: int) -> np.ndarray:
    """[V] what the hash adds to a key, per token."""
    return np.arange(1, vocabulary + 1, dtype=np.uint64) * np.uint64(GOLDEN % (1 << 64))
