"""Growing a token tree by the draft model, one level of it per draft forward."""

from collections.abc import Generator, Iterable
from typing import Any

from leapdecode.core import Asked, Forward, ForwardResult, Sequence, TokenTree
from leapdecode.methods.planner import Planner


def grow(
    sequence: Sequence,
    tree: TokenTree,
    widths: Iterable[int],
    confidence: float,
    planner: Planner,
    replacement: bool = False,
) -> Generator[Asked, ForwardResult | None, None]:
    """Grow `tree` from its root: per width one draft forward, that many children for every node of
    the last level.

    A node that the draft finds less likely than `confidence` gets no children, and growth ends
    where another level no longer pays by the `planner`. Both go by what is known before the next
    tokens are drawn, so the distribution of the rejection verifier holds.
    """
    level = [0]
    evaluated = 0  # nodes that earlier forwards have evaluated
    widths = list(widths)
    for number, width in enumerate(widths):
        # the target's own token ends the text
        levels = min(len(widths) - number, sequence.remaining - 1 - tree.depths[level[0]])
        if levels < 1 or not planner.worth_drafting(
            tree,
            level,
            len(sequence.tokens),
            width,
            sequence.samples_drafts,
            levels,
        ):
            return
        output = yield Forward("draft", sequence, tree, width, replacement)
        assert output is not None, "the engine answers every Forward with a ForwardResult"
        if output.choices[level[0]] < 0:  # the token limit, or the draft's context, ends here
            return
        rows = [node - evaluated for node in level]
        evaluated = len(tree)
        tokens = [
            _tokens_at(tree, node, output, row, width, replacement)
            for node, row in zip(level, rows, strict=True)
        ]
        likely = probabilities(output.logits_NV, rows, tokens)
        children = dict[int, None]()  # a token drawn twice is one node
        for parent, drawn, chances in zip(level, tokens, likely, strict=True):
            for token, chance in zip(drawn, chances, strict=True):
                node = tree.add(parent, token, "draft", draft_probability=chance)
                if chance >= confidence and token not in sequence.end_tokens:
                    children[node] = None
        level = list(children)
        if not level:
            return


def _tokens_at(
    tree: TokenTree, node: int, output: ForwardResult, row: int, width: int, replacement: bool
) -> list[int]:
    """The tokens that the draft gives behind a node, whose logits are in a row of its output."""
    tokens = output.top[node] if width > 1 else [output.choices[node]]
    if output.sampled_from is None:
        return tokens
    return propose(tree, node, tokens, output.sampled_from[row], replacement)


def propose(
    tree: TokenTree, parent: int, tokens: list[int], sampled_from: Any, replacement: bool = False
) -> list[int]:
    """Note how `tokens` were drawn; returns them without those of probability 0."""
    sampled_from = sampled_from.cpu()
    likely = [token for token in tokens if sampled_from[token] > 0]
    tree.proposals[parent] = (likely, sampled_from, replacement)
    return likely


def probabilities(logits: Any, rows: list[int], tokens: list[list[int]]) -> list[list[float]]:
    """The draft's probability of each row's `tokens`, from raw logits [nodes, vocabulary]."""
    places = [(place, token) for place, row in enumerate(tokens) for token in row]
    if not places:
        return [[] for _ in tokens]
    chosen = logits[rows].float()
    index, ids = chosen.new_tensor(places).long().T
    flat = iter((chosen[index, ids] - chosen.logsumexp(-1)[index]).exp().tolist())
    return [[next(flat) for _ in row] for row in tokens]
