"""What a method asks for, and what it gets back."""

from dataclasses import dataclass
from typing import Any

from leapdecode.core.sequence import Sequence
from leapdecode.core.tree import TokenTree


@dataclass(slots=True)
class Forward:
    """Evaluate the nodes of `tree` that `model` has not evaluated yet, behind `sequence`'s text.

    The answer is a `Scores`. A tree may grow between two forwards; its evaluated nodes keep their cache slots.
    `top` asks for that many best tokens per node instead of one; under the rejection verifier a draft draws them, with
    `replacement` or without.
    """

    model: str
    sequence: Sequence
    tree: TokenTree
    top: int = 1
    replacement: bool = False


@dataclass(slots=True)
class Commit:
    """Make the slots of `path` (node ids from the root down) the tail of `model`'s line; free all other nodes.

    A target's commit names the tree that the method `guessed` and the path accepted in it, so that a draft's line,
    which may hold nodes of that tree, can follow.
    """

    model: str
    sequence: Sequence
    path: list[int]
    guessed: tuple[TokenTree, list[int]] | None = None


Request = Forward | Commit


@dataclass(slots=True)
class Scores:
    """The model's answer for the nodes of a tree.

    Attributes:
        choices: per node the chosen next token, -1 for a node that was not evaluated (beyond the context or the
            token limit).
        top: per node the `Forward.top` best tokens, best first; empty lists when only one was asked for.
        logits: [new nodes, vocabulary] raw logits of the nodes that this forward evaluated (a tensor).
        rows: rows that this forward evaluated for the sequence, missing text included.
        drawn_from: [new nodes, vocabulary] the distributions that a draft's tokens were drawn from, under the
            rejection verifier; else None.
    """

    choices: list[int]
    top: list[list[int]]
    logits: Any
    rows: int
    drawn_from: Any = None
