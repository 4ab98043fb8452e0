"""Whether a window of Jacobi trajectories pays: found out by trying it now and then."""

from collections.abc import Callable
from dataclasses import dataclass

MOST_COST = 1.5  # a window is tried where a step with it takes at most this many times a plain one
TRIAL, FIRST_REST, LONGEST_REST = 24, 64, 8192  # steps

StepCost = Callable[[int, int], float]  # (rows, cached tokens) -> time of a step, in any unit


@dataclass
class WindowTrial:
    """Whether a window of Jacobi trajectories pays: tried where rows are cheap enough, judged by
    the tokens it gained.

    A failed trial is repeated after a rest that doubles each time, and is four times as long where
    nothing was gained at all.
    """

    width: int = 0
    rows: int = 0  # beside the root
    steps: int = 0  # of the present trial, or left of the rest
    rest: int = FIRST_REST
    gained: float = 0.0
    tokens: float = 0.0
    spent_rows: float = 0.0

    def columns(self, wanted: int, height: int, context: int, cost: StepCost) -> int:
        """How many of `wanted` columns of `height` rows to evaluate in the next step."""
        if self.width:
            return min(self.width, wanted)
        self.steps -= 1
        if self.steps > 0:
            return 0
        width = wanted
        while width and (
            width * height == 1 or cost(width * height, context) > MOST_COST * cost(1, context)
        ):
            width //= 2
        self.width, self.rows, self.steps = width, width * height - 1, 0 if width else FIRST_REST
        self.gained = self.tokens = self.spent_rows = 0.0
        return width

    def judge(self, gained: int, tokens: int, rows: int, context: int, cost: StepCost) -> None:
        """Take in one step; after `TRIAL` of them compare the speed with and without the window."""
        if not self.width:
            return
        self.steps, self.gained = self.steps + 1, self.gained + gained
        self.tokens, self.spent_rows = self.tokens + tokens, self.spent_rows + rows
        if self.steps < TRIAL:
            return
        mean = round(self.spent_rows / self.steps)
        without = (self.tokens - self.gained) / cost(max(mean - self.rows, 1), context)
        if self.tokens / cost(mean, context) < without:
            longer = self.rest * (2 if self.gained else 4)
            self.width, self.steps, self.rest = 0, self.rest, min(longer, LONGEST_REST)
        else:
            self.steps, self.rest = 0, FIRST_REST
        self.gained = self.tokens = self.spent_rows = 0.0
