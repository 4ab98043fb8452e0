"""What a search is: it says which nodes to expand next, and which one to answer from.

A search draws nothing at random and sees neither prompts nor models.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar

from leapdecode.reasoning.tree import Node, Path


@dataclass(frozen=True)
class Limits:
    """How far a tree may grow: levels of thoughts (T - 1 in SEED), and nodes expanded at once."""

    levels: int
    breadth: int

    def is_leaf(self, node: Node) -> bool:
        """Whether a node may not be expanded."""
        return node.final or node.depth >= self.levels


@dataclass(frozen=True)
class Step:
    """One step of a search.

    Attributes:
        grow: nodes to expand; their children get values.
        beside: final nodes of earlier levels that the children are compared with. Where votes are
            taken, they get new values.
    """

    grow: list[Node]
    beside: list[Node] = field(default_factory=list)


@dataclass
class Search(ABC):
    """A search: one file beside this one. Its options are its fields, each with `help`."""

    name: ClassVar[str]
    summary: ClassVar[str]
    takes_votes: ClassVar[bool] = False  # whether it compares nothing but states of one level

    @abstractmethod
    def run(self, root: Node, limits: Limits) -> Generator[Step, None, Node]:
        """Search a tree.

        Yields which nodes to expand, and goes on when these have children with values. Returns the
        node to answer from.
        """

    @classmethod
    def options(cls) -> tuple[Field[Any], ...]:
        """The options, each with its default and help."""
        return fields(cls)


def rank(node: Node) -> tuple[bool, float, Path]:
    """Sorts the best node first: the highest value, ties by path; nodes without a value last."""
    return node.value is None, -(node.value or 0.0), node.path


def best(nodes: Iterable[Node]) -> Node:
    """The first of the nodes by `rank`."""
    return min(nodes, key=rank)
