"""How many rows the trees of a batch have: as many for all of them.

A forward has as many rows per sequence as its largest tree, so one tree of ten nodes makes seven
others pay for ten. Hence a batch has one size. With g(r) the mean chance that the walk reaches the
node in row r, over the last trees, it is the number of rows R that makes

    sum of g(r) over r = 2 ... R   -   lambda x (time of R rows - time of 1 row)

greatest, lambda being the tokens per time of a sequence. It is chosen anew every few steps, for all
trees of a step: were it chosen for each tree, a forward would have the most of eight choices.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

StepCost = Callable[[int, int], float]  # (rows, cached tokens) -> time of a step, in any unit

RECENT = 64  # trees that a mean goes over
HELD = 4  # steps that a choice is kept for
AHEAD = 8  # rows beyond the common ones for which trees make guesses, so that more may be chosen


@dataclass
class CommonRows:
    """Mean chances by row, and the number of rows chosen last.

    Attributes:
        left: trees until it is chosen anew. Those of a batch's first step are only learnt from.
    """

    rows: int = 1
    left: int = 0
    sums: list[float] = field(default_factory=list)  # of chances; row 2 is the first
    trees: float = 0.0

    @property
    def wanted(self) -> int:
        """Rows that trees are to have guesses for."""
        return self.rows + AHEAD

    def learn(self, chances: list[float], always: int) -> None:
        """Take in the chances of a tree's guesses, likeliest first, behind `always` rows."""
        keep = 1 - 1 / RECENT
        first = always - 1  # the place of row `always` + 1
        self.sums += [0.0] * (first + len(chances) - len(self.sums))
        self.sums = [keep * total for total in self.sums]
        self.trees = keep * self.trees + 1
        for place, chance in enumerate(chances, start=first):
            self.sums[place] += chance

    def choose(self, price: float, cost: Callable[[int], float], trees: int = 1) -> int:
        """The number of rows that gains most beyond `price` times its time, where a step has so
        many `trees`.
        """
        self.left -= 1
        if self.left >= 0:
            return self.rows
        self.left = HELD * trees - 1
        gained = 0.0
        best = -price * cost(1)
        self.rows = 1
        for rows, total in enumerate(self.sums, start=2):
            gained += total / self.trees
            if gained - price * cost(rows) > best:
                self.rows, best = rows, gained - price * cost(rows)
        return self.rows


@dataclass
class BatchCost:
    """The time of a step by the rows of each of `active` sequences.

    Args:
        times: milliseconds of a forward by its rows in all.
        padded: to how many rows each of so many sequences is padded.
    """

    times: Callable[[int], float]
    padded: Callable[[int, int], int] = lambda rows, sequences: rows
    active: int = 1

    def __call__(self, rows: int, context: int) -> float:
        return self.times(self.active * self.padded(rows, self.active))
