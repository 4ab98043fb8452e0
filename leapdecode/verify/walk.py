"""The verifier walk under seeded choice: accept a child iff it carries the chosen token."""

from dataclasses import dataclass, field

from leapdecode.core import TokenTree


@dataclass(slots=True)
class Verdict:
    """What a step accepted.

    Attributes:
        path: accepted nodes from the root down, the root included.
        tokens: the accepted nodes' tokens and the bonus token; `len(tokens)` is the accepted
            length.
        sources: per token where it was guessed; "target" for the bonus token.
        choices: the target's choice at every node (-1 where it was not evaluated), for methods to
            learn from.
        likeliest: per node what the target found likely there, see `ForwardResult`; empty where the
            method does not ask for it.
    """

    path: list[int]
    tokens: list[int]
    sources: list[str]
    choices: list[int]
    likeliest: list[list[tuple[int, float]]] = field(default_factory=list)


def walk(tree: TokenTree, choices: list[int]) -> Verdict:
    """Step from the root to the child that carries the choice, until there is none; the last choice
    is the bonus.
    """
    path, tokens, sources, node = [0], [], [], 0
    while True:
        chosen = choices[node]
        tokens.append(chosen)
        child = tree.child(node, chosen)
        if child is None or choices[child] < 0:
            sources.append("target")
            return Verdict(path, tokens, sources, choices)
        sources.append(tree.sources[child])
        path.append(child)
        node = child
