"""A reasoning tree: thoughts as nodes, what they are worth, and the answer they led to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from leapdecode.errors import ResultsError

SCHEMA = 1
Path = tuple[int, ...]


@dataclass(eq=False)
class Node:
    """One thought; with those above it, it is a state.

    Attributes:
        path: the number of the child at every level from the root; () is the root.
        thought: what the model wrote; the root's is empty.
        value: from 1 to 10, or for votes from 0 to 10; None if none was read.
        explanation: the text that the value was read from.
        final: whether nothing may follow.
        parent, children: its neighbours.
    """

    path: Path = ()
    thought: str = ""
    value: float | None = None
    explanation: str = ""
    final: bool = False
    parent: Node | None = field(default=None, repr=False)
    children: list[Node] = field(default_factory=list, repr=False)

    @property
    def depth(self) -> int:
        return len(self.path)

    def branch(self) -> list[Node]:
        """The nodes from below the root down to this one."""
        above = self.parent.branch() if self.parent else []
        return [*above, self] if self.path else []

    def thoughts(self) -> tuple[str, ...]:
        """The thoughts of the branch."""
        return tuple(node.thought for node in self.branch())

    def nodes(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.nodes()


@dataclass
class Counts:
    """What a search did.

    Attributes:
        thoughts: nodes below the root.
        evaluations: evaluations that nodes needed; with votes, votes.
        coincidences: thoughts that an earlier sibling has, too.
        unparsed: evaluations without a value that could be read.
        cache_hits: evaluations whose prompt had been evaluated before, so nothing was generated.
        undecided: steps in which no evaluation could be read, so that the lowest path went on.
    """

    thoughts: int = 0
    evaluations: int = 0
    coincidences: int = 0
    unparsed: int = 0
    cache_hits: int = 0
    undecided: int = 0


@dataclass(eq=False)
class Tree:
    """What a search found.

    Attributes:
        question: as it was asked.
        task: the task's name.
        settings: how the tree was searched.
        root: the state without thoughts.
        chosen: the node behind which the answer was generated; None while searching.
        answer: the text of the final generation, put in order by the task.
        score: of the answer, from 0 to 1; None for questions whose answer is not known.
        counts: thoughts, evaluations and what became of them.
    """

    question: str
    task: str
    settings: dict[str, Any]
    root: Node
    chosen: Node | None = None
    answer: str = ""
    score: float | None = None
    counts: Counts = field(default_factory=Counts)

    def node(self, path: Path) -> Node:
        """The node at a path; raises `IndexError` where there is none."""
        node = self.root
        for number in path:
            node = node.children[number]
        return node

    def to_json(self) -> dict[str, Any]:
        """The tree as a document of objects, lists, texts and numbers alone."""
        return {
            "schema": SCHEMA,
            "task": self.task,
            "question": self.question,
            "settings": self.settings,
            "answer": self.answer,
            "score": self.score,
            "chosen": None if self.chosen is None else list(self.chosen.path),
            "counts": asdict(self.counts),
            "root": _to_json(self.root),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Tree:
        """The tree of a document that `to_json` made; raises `ResultsError` for any other."""
        try:
            if document["schema"] != SCHEMA:
                raise ResultsError(f"a tree of schema {document['schema']!r}, not {SCHEMA}")
            plain = {key: document[key] for key in ("question", "task", "settings", "answer")}
            root, counts = _from_json(document["root"], (), None), Counts(**document["counts"])
            tree = cls(**plain, root=root, score=document["score"], counts=counts)
            if document["chosen"] is not None:
                tree.chosen = tree.node(tuple(document["chosen"]))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ResultsError(f"no tree: {type(error).__name__}: {error}") from error
        return tree


def _to_json(node: Node) -> dict[str, Any]:
    return {
        "thought": node.thought,
        "value": node.value,
        "explanation": node.explanation,
        "final": node.final,
        "children": [_to_json(child) for child in node.children],
    }


def _from_json(document: dict[str, Any], path: Path, parent: Node | None) -> Node:
    plain = {key: document[key] for key in ("thought", "value", "explanation", "final")}
    node = Node(path, **plain, parent=parent)
    for number, child in enumerate(document["children"]):
        node.children.append(_from_json(child, (*path, number), node))
    return node
