"""Keys of counter-based noise, and the noise of one token, without a tensor."""

import hashlib
import math
from collections.abc import Hashable

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
MIX_1 = 0xBF58476D1CE4E5B9 - (1 << 64)
MIX_2 = 0x94D049BB133111EB - (1 << 64)


def counter_key(seed: int, stream: Hashable, position: int) -> int:
    """A 64-bit key, as a signed integer, for the noise of one position of one stream."""
    digest = hashlib.blake2b(repr((seed, stream, position)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def gumbel_of(key: int, token: int) -> float:
    """The noise of one token, as `noise.gumbel` gives it up to rounding, without a tensor."""
    whole = (1 << 64) - 1
    bits = (key + (token + 1) * GOLDEN) & whole
    bits = ((bits ^ bits >> 30) * MIX_1) & whole
    bits = ((bits ^ bits >> 27) * MIX_2) & whole
    bits ^= bits >> 31
    return -math.log(-math.log(((bits >> 12) + 0.5) * 2.0**-52))
