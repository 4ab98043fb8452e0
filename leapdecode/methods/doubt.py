"""Whether forwards contradict the row-cost curve that is kept of them.

A curve holds the fastest forwards of an idle machine, and a forward hardly takes less. So where
forwards take half of what the curve says, it was measured beside other work. Its rows are then too
dear, and a planner that goes by it guesses too little.
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
