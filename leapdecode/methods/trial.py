"""Whether a window of Jacobi trajectories pays: an upper confidence bound of what it gains."""

import math
from collections.abc import Callable
from dataclasses import dataclass

PERIOD = 8  # steps between decisions: a window needs a few steps before it gains anything
PRIOR_GAIN, WEIGHT = 0.1, 2.0  # tokens per step of an unknown window, and the steps it counts for
Z = 1.0  # standard deviations of the upper confidence bound
FORGET = 0.998  # per step, of what was seen

StepCost = Callable[[int, int], float]  # (rows, cached tokens) -> time of a step, in any unit


@dataclass
class WindowTrial:
    """Carries a window while UCB(tokens that it gains per step) > throughput x its time.

    The bound of a mean gain m of n steps, both decayed, is m + Z sqrt(m / (n + WEIGHT)): gains are
    counts, whose variance is about their mean. What is not seen is forgotten, so the bound rises
    and the window is tried again.
    """

    width: int = 0
    left: int = 0  # steps until the next decision
    gained: float = 0.0
    steps: float = 0.0
    rows: float = 1.0  # of a step without the window, on average

    def columns(self, wanted: int, height: int, context: int, cost: StepCost, rate: float) -> int:
        """How many of `wanted` columns of `height` rows to evaluate in the next step."""
        self.gained, self.steps = FORGET * self.gained, FORGET * self.steps
        self.left -= 1
        if self.left >= 0:
            return min(self.width, wanted)
        count = self.steps + WEIGHT
        mean = (self.gained + WEIGHT * PRIOR_GAIN) / count
        bound = mean + Z * math.sqrt(mean / count)
        beside = round(self.rows)
        width = wanted
        while width and (
            width * height == 1
            or bound <= rate * (cost(beside + width * height - 1, context) - cost(beside, context))
        ):
            width //= 2
        self.width, self.left = width, PERIOD - 1
        return width

    def judge(self, gained: int, rows: int, height_rows: int) -> None:
        """Take in one step, of `rows` in all."""
        self.gained += gained
        if self.width:
            self.steps += 1
        self.rows += (max(rows - height_rows, 1) - self.rows) / PERIOD
