"""Best-first search (A*): always expand the cheapest states, until a leaf is the cheapest."""

import heapq
import math
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import ClassVar

from leapdecode.errors import OptionError
from leapdecode.reasoning.answers import HIGHEST
from leapdecode.reasoning.search.base import Limits, Search, Step
from leapdecode.reasoning.tree import Node, Path


@dataclass
class BestFirst(Search):
    """A* over f = g + h.

    A step to a node of value v costs -log(v / 10), so g, the sum of a branch's costs, is least
    where the product of its values is highest. h is 0, which is admissible because no step costs
    less than 0: the first leaf that is the cheapest state has the cheapest branch of all leaves
    that can be reached. A node without a value costs infinitely much: it comes behind all others.
    Among equal costs deeper nodes come first, then lower paths. The `breadth` cheapest states are
    expanded at once, which generates more, but chooses no dearer leaf.
    """

    name: ClassVar[str] = "best_first"
    summary: ClassVar[str] = "A*: the states whose values have the highest product"
    expansions: int = field(
        default=64, metadata={"help": "most nodes to expand; then the cheapest leaf is chosen"}
    )

    def __post_init__(self) -> None:
        if self.expansions < 1:
            raise OptionError(f"expansions={self.expansions} must be at least 1")

    def run(self, root: Node, limits: Limits) -> Generator[Step, None, Node]:
        """Search a tree, see `Search.run`."""
        frontier: list[tuple[tuple[float, int, Path], Node]] = [(order(root), root)]
        num_left = self.expansions
        while num_left and not limits.is_leaf(frontier[0][1]):
            growing: list[Node] = []
            max_growing = min(limits.breadth, num_left)
            while frontier and len(growing) < max_growing and not limits.is_leaf(frontier[0][1]):
                growing.append(heapq.heappop(frontier)[1])
            yield Step(growing)
            num_left -= len(growing)
            for node in growing:
                for child in node.children:
                    heapq.heappush(frontier, (order(child), child))
        leaves = [entry for entry in frontier if limits.is_leaf(entry[1])]
        return min(leaves or frontier, key=lambda entry: entry[0])[1]


def cost(node: Node) -> float:
    """g: what the steps of a node's branch cost."""
    return sum(
        math.inf if step.value is None else -math.log(step.value / HIGHEST)
        for step in node.branch()
    )


def order(node: Node) -> tuple[float, int, Path]:
    """Sorts the cheapest node first, then deeper ones, then lower paths."""
    return cost(node), -node.depth, node.path
