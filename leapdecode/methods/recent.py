"""Means over the last steps: tokens per time, how right chances were, what windows gained."""

from collections import deque
from dataclasses import dataclass, field

from leapdecode.core import TokenTree
from leapdecode.methods.rates import FORGET, WEIGHT

DECAY = 0.98  # per step, of the tokens and the time that lambda is made of
RECENT = 16  # steps, or draft forwards, that a mean goes over
GAIN = 0.3  # tokens per step of a window, before any was carried
SURE = 4.0  # tokens that chances are taken to have predicted rightly before the first step
PLAIN = 4  # after so many steps in a row for which a root alone was best,
REST = 8  # a tree is grown in every so many steps


@dataclass
class Throughput:
    """Tokens per time over the last steps, lambda."""

    tokens: float = 0.0
    time: float = 0.0

    def rate(self, plain: float) -> float:
        """At least plain decoding's, whose step takes `plain`."""
        return max((WEIGHT + self.tokens) / (WEIGHT * plain + self.time), 1 / plain)

    def learn(self, tokens: int, time: float) -> None:
        self.tokens, self.time = DECAY * self.tokens + tokens, DECAY * self.time + time


@dataclass
class Trust:
    """How many tokens guesses gave over the last steps, and how many their chances predicted.

    Attributes:
        hits: accepted guesses.
        expected: the sum of the chances of evaluated nodes.
    """

    hits: float = 0.0
    expected: float = 0.0

    @property
    def share(self) -> float:
        """Accepted guesses per predicted one, at most 1."""
        return min((self.hits + SURE) / (self.expected + SURE), 1.0)

    def learn(self, tree: TokenTree, chances: list[float], tokens: int) -> None:
        """Take in how many of a tree's guesses were accepted; `chances` are those with which the
        walk was to reach each node.
        """
        evaluated = (node for node in range(1, len(tree)) if node not in tree.skipped)
        self.expected = DECAY * self.expected + sum(chances[node] for node in evaluated)
        self.hits = DECAY * self.hits + tokens


@dataclass
class Rest:
    """Back-off: where guesses have not paid for `PLAIN` steps, most trees are a root alone.

    Attributes:
        plain: trees since one had more rows than its root's.
        resting: whether the tree under way is a root alone.
    """

    plain: int = 0
    resting: bool = False

    def rests(self, sequences: int = 1) -> bool:
        """Whether the next tree is a root alone; a step has `sequences` trees."""
        self.plain += 1
        self.resting = self.plain > PLAIN * sequences and self.plain % REST > 0
        return self.resting

    def learn(self, rows: int) -> None:
        """Take in the rows of a tree for which guesses were made."""
        if rows > 1:
            self.plain = 0


@dataclass
class Window:
    """A window of Jacobi trajectories: its columns at present, and what windows gained of late.

    Attributes:
        width: columns at present.
        height: rows per column.
        left: steps until the next decision.
        hoped: tokens per step of an unknown window, which count for `WEIGHT` steps.
        gained: tokens that there were thanks to windows.
        carried: steps that carried one.
        beside: rows of the last steps without their window.
    """

    width: int = 0
    height: int = 1
    left: int = 0
    hoped: float = GAIN
    gained: float = 0.0
    carried: float = 0.0
    beside: deque[int] = field(default_factory=lambda: deque([1], RECENT))

    @property
    def rows(self) -> int:
        """Rows that it adds to a step; the root is its first."""
        return max(self.width * self.height - 1, 0)

    @property
    def expected(self) -> float:
        """Tokens that a step gains by one."""
        return (self.gained + WEIGHT * self.hoped) / (self.carried + WEIGHT)

    def learn(self, gained: int, rows: int) -> None:
        """Take in a step of `rows` rows in all."""
        self.gained = FORGET * self.gained + gained
        self.carried = FORGET * self.carried + (self.width > 0)
        self.beside.append(max(rows - self.rows, 1))
