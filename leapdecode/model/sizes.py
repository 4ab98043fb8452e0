"""Sizes of memory, as people write them."""

import re

from leapdecode.errors import OptionError

SIZES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}


def parse_size(value: int | str) -> int:
    """Bytes: a whole number, or text like "512MB" or "2GiB"; raises `OptionError`."""
    if isinstance(value, str):
        parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*", value)
        if parts and parts[2].lower() in SIZES:
            value = int(float(parts[1]) * SIZES[parts[2].lower()])
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(
            f"cache_memory={value!r} must be a number of bytes, or a size like 512MB or 2GiB"
        )
    return value


def readable(size: float) -> str:
    """A number of bytes in the unit that suits it."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size:.0f} bytes"
