"""Breadth-first search: Algorithm 2 of SEED (Wang et al., 2024), after Tree of Thoughts."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from leapdecode.reasoning.search.base import Limits, Search, Step, best, rank
from leapdecode.reasoning.tree import Node


@dataclass
class BreadthFirst(Search):
    """Level by level, keeping the `breadth` best states of each.

    The set of `breadth` states with the highest sum of values (line 6) is that of the highest
    values; ties go to the lower path. A final state is not expanded, but stays a candidate with the
    value that it has.
    """

    name: ClassVar[str] = "breadth_first"
    summary: ClassVar[str] = "level by level, keeping the best states of each (SEED, Algorithm 2)"
    takes_votes: ClassVar[bool] = True

    def run(self, root: Node, limits: Limits) -> Generator[Step, None, Node]:
        """Search a tree, see `Search.run`."""
        states = [root]
        while growing := [node for node in states if not limits.is_leaf(node)]:
            kept = [node for node in states if limits.is_leaf(node)]
            yield Step(growing, kept)
            candidates = kept + [child for node in growing for child in node.children]
            states = sorted(candidates, key=rank)[: limits.breadth]
        return best(states)
