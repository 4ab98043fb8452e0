"""Whether forwards contradict the row-cost curve that is kept of them.

A curve that was measured beside other work is too dear, and a planner that goes by it guesses too
little. Nothing else takes a forward less time than the fastest of an idle machine, so forwards that
take half of it say that the machine was not idle then.
"""

import statistics
from collections import deque
from collections.abc import Callable

FORWARDS = 32  # that are looked at together
CONTRADICTED = 0.5  # times the curve: their median


class Doubt:
    """Compares forwards with what a curve says of them.

    Args:
        contradicted: called once, when the median of `FORWARDS` forwards is under `CONTRADICTED`
            times their expected time.
    """

    def __init__(self, contradicted: Callable[[], None]) -> None:
        self.contradicted = contradicted
        self.ratios: deque[float] = deque(maxlen=FORWARDS)
        self.told = False

    def saw(self, expected: float, taken: float) -> None:
        """A forward that was `expected` to take some milliseconds took so many."""
        self.ratios.append(taken / expected)
        if self.told or len(self.ratios) < FORWARDS:
            return
        if statistics.median(self.ratios) < CONTRADICTED:
            self.told = True
            self.contradicted()
