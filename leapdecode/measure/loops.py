"""How much a text repeats itself: looping outputs are reported apart, because any method gains on
them.
"""

LOOPING = 0.1


def repeated_share(ids: list[int], size: int = 4) -> float:
    """Share of the text's `size`-grams of token ids that occurred before in it; above `LOOPING` the
    text loops.
    """
    grams = [tuple(ids[start : start + size]) for start in range(len(ids) - size + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
