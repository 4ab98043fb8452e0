"""What a method asks of a model, and what it gets back."""

from dataclasses import dataclass, field
from typing import Any

from leapdecode.core.sequence import Sequence
from leapdecode.core.tree import TokenTree


@dataclass(slots=True)
class Forward:
    """Evaluate the nodes of `tree` that `model` has not evaluated yet, behind `sequence`'s text.

    The answer is a `ForwardResult`. A tree may grow between two forwards; its evaluated nodes keep
    their cache slots. `top` asks for that many best tokens per node instead of one; under the
    rejection verifier a draft draws them, with `replacement` or without. `likeliest` asks for the
    tokens of the greatest processed logits at every node, whatever is chosen.
    """

    model: str
    sequence: Sequence
    tree: TokenTree
    top: int = 1
    replacement: bool = False
    likeliest: int = 0


@dataclass(slots=True)
class Commit:
    """Make the slots of `path` (node ids from the root down) the tail of `model`'s cache; free all
    other nodes.

    A target's commit names the tree that the method `guessed` and the path accepted in it, so that
    a draft's cache, which may hold nodes of that tree, can follow.
    """

    model: str
    sequence: Sequence
    path: list[int]
    guessed: tuple[TokenTree, list[int]] | None = None


Asked = Forward | Commit


@dataclass(slots=True)
class ForwardResult:
    """One sequence's part of a forward.

    Attributes:
        logits_NV: [new nodes, vocabulary] raw logits of the nodes that this forward evaluated (a
            tensor).
        nodes: their node ids.
        context: the tokens behind which they stand, the root's included.
        rows: rows evaluated for the sequence, missing text included.
        step_rows: those of this forward alone, without the `only_prefill` forwards before it.
        only_prefill: forwards of missing text alone that preceded it, which took `prefill_seconds`.
        seconds: the sequence's share of this forward.
        choices: per node of the tree the chosen next token, -1 for a node that was not evaluated
            (beyond the context or the token limit).
        top: per node the `Forward.top` best tokens, best first; empty lists when only one was asked
            for.
        likeliest: per node `Forward.likeliest` (token, probability among these), best first; empty
            where none were asked for.
        scores_NV: [new nodes, vocabulary] the logits after processors, penalties and temperature.
        nearest: the greatest of these and their tokens, [new nodes, K] each, where the choice
            looked for them; else None.
        sampled_from: [new nodes, vocabulary] the distributions that a draft's tokens were sampled
            from, under the rejection verifier; else None.
    """

    logits_NV: Any
    nodes: list[int]
    context: list[int]
    rows: int
    step_rows: int
    only_prefill: int = 0
    seconds: float = 0.0
    prefill_seconds: float = 0.0
    choices: list[int] = field(default_factory=list)
    top: list[list[int]] = field(default_factory=list)
    likeliest: list[list[tuple[int, float]]] = field(default_factory=list)
    scores_NV: Any = None
    nearest: Any = None
    sampled_from: Any = None

    @classmethod
    def without_choices(cls, size: int) -> "ForwardResult":
        """The answer for a tree of `size` nodes of which none could be evaluated."""
        return cls(None, [], [], 0, 0, choices=[-1] * size, top=[[] for _ in range(size)])
