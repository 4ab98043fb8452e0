"""Monte Carlo tree search with upper confidence bounds (UCT, Kocsis and Szepesvari, 2006)."""

import math
from collections import Counter, defaultdict
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from leapdecode.errors import OptionError
from leapdecode.reasoning.answers import HIGHEST
from leapdecode.reasoning.search.base import Limits, Search, Step
from leapdecode.reasoning.tree import Node, Path

Visits = Counter[Path]
Rewards = Mapping[Path, float]


@dataclass
class MonteCarlo(Search):
    """Walks from the root to the child with the highest upper bound, and expands where it ends.

    The bound of a child is Q / N + exploration x sqrt(ln(N of its parent) / N). A value v is a
    reward of v / 10, and 0 where there is none. Every child of an expanded node is a visit of
    itself and of all nodes above it. A leaf that is walked to again is visited again, with its own
    reward. Where `breadth` walks are made at once, each adds a visit without a reward to its
    branch, so that the next takes another way; these virtual visits do not outlast the batch. The
    answer comes from the node that the most visited children lead to, among as many visits those of
    higher rewards. All other ties go to the lower path.
    """

    name: ClassVar[str] = "mcts"
    summary: ClassVar[str] = "Monte Carlo tree search (UCT), with values as rewards"
    walks: int = field(default=16, metadata={"help": "walks from the root"})
    exploration: float = field(
        default=math.sqrt(2), metadata={"help": "weight of what was seldom visited"}
    )

    def __post_init__(self) -> None:
        if self.walks < 1:
            raise OptionError(f"walks={self.walks} must be at least 1")
        if not 0 <= self.exploration < math.inf:
            raise OptionError(f"exploration={self.exploration} must be a number of at least 0")

    def run(self, root: Node, limits: Limits) -> Generator[Step, None, Node]:
        """Search a tree, see `Search.run`."""
        visits: Counter[Path] = Counter()
        rewards: defaultdict[Path, float] = defaultdict(float)
        num_left = 0 if limits.is_leaf(root) else self.walks
        while num_left:
            ends = self._walks(root, min(limits.breadth, num_left), limits, visits, rewards)
            num_left -= len(ends)
            growing = [node for node in ends if not limits.is_leaf(node)]
            if growing:
                yield Step(growing)
            visited = [node for node in ends if limits.is_leaf(node)]
            visited += [child for node in growing for child in node.children]
            for node in visited:
                for path in prefixes(node):
                    visits[path] += 1
                    rewards[path] += (node.value or 0.0) / HIGHEST
        return _most_visited(root, visits, rewards)

    def _walks(
        self, root: Node, count: int, limits: Limits, visits: Visits, rewards: Rewards
    ) -> list[Node]:
        """Where up to `count` walks end; fewer where one ends at a node that will be expanded."""
        ends: list[Node] = []
        virtual = Counter(visits)
        while len(ends) < count:
            node = self._walk(root, virtual, rewards)
            if node in ends and not limits.is_leaf(node):
                break
            ends.append(node)
            virtual.update(prefixes(node))
        return ends

    def _walk(self, root: Node, visits: Visits, rewards: Rewards) -> Node:
        """The node without children that the highest bounds lead to."""

        def bound(child: Node, log_visits: float) -> float:
            count = visits[child.path]
            return rewards[child.path] / count + self.exploration * math.sqrt(log_visits / count)

        node = root
        while node.children:
            log_visits = math.log(visits[node.path])
            node = max(node.children, key=lambda child: bound(child, log_visits))
        return node


def prefixes(node: Node) -> list[Path]:
    """The paths of a node and of all above it."""
    return [node.path[:depth] for depth in range(node.depth + 1)]


def _most_visited(root: Node, visits: Visits, rewards: Rewards) -> Node:
    """Where the most visited children lead; among as many visits, those of higher rewards."""
    node = root
    while node.children:
        node = max(node.children, key=lambda child: (visits[child.path], rewards[child.path]))
    return node
