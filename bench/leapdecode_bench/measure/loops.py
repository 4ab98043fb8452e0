"""How much a text repeats itself: looping outputs are reported apart, because any method gains on
them.
"""

from leapdecode.training.cleaning import repeated_share

__all__ = ["LOOPING", "repeated_share"]

LOOPING = 0.1  # a text loops where a larger share of its 4-grams of tokens occurred before
