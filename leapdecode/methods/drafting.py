"""Growing a token tree by the draft model, one level of it per draft forward."""

from collections.abc import Generator, Iterable
from typing import Any

from leapdecode.core import Asked, Forward, ForwardResult, Sequence, TokenTree
from leapdecode.methods.planner import Planner


def grow(
    sequence: Sequence,
    tree: TokenTree,
    widths: Iterable[int],
    confidence: float = 0.0,
    planner: Planner | None = None,
    replacement: bool = False,
) -> Generator[Asked, ForwardResult | None, None]:
    """Grow `tree` from its root: per width one draft forward, that many children for every node of
    the last level.

    A node that the draft finds less likely than `confidence` gets no children, and with a planner
    growth ends where another level no longer pays. Both go by what is known before the next tokens
    are drawn, so the law of the rejection verifier holds.
    """
    level, done, sampled = [0], 0, sequence.samples_drafts
    for width in widths:
        # the target's own token will be the last
        if tree.depths[level[0]] + 1 >= sequence.remaining:
            return
        if planner is not None and not planner.worth_drafting(
            tree, level, len(sequence.tokens), width, sampled=sampled
        ):
            return
        found = yield Forward("draft", sequence, tree, width, replacement)
        assert found is not None, "the engine answers every Forward with a ForwardResult"
        if found.choices[level[0]] < 0:  # the token limit, or the draft's context, ends here
            return
        first, done = done, len(tree)
        rows = [node - first for node in level]
        wanted = [found.top[node] if width > 1 else [found.choices[node]] for node in level]
        if found.sampled_from is not None:
            wanted = [propose(tree, node, tokens, found.sampled_from[row], replacement)
                      for node, tokens, row in zip(level, wanted, rows, strict=True)]  # fmt: skip
        needed = confidence > 0 or planner is not None
        chances = (
            probabilities(found.logits_NV, rows, wanted)
            if needed
            else [[1.0] * len(row) for row in wanted]
        )
        level = [
            node
            for parent, tokens, likely in zip(level, wanted, chances, strict=True)
            for node in _children(tree, parent, tokens, likely, confidence)
            if tree.tokens[node] not in sequence.end_tokens
        ]
        level = list(dict.fromkeys(level))  # a token drawn twice is one node
        if not level:
            return


def propose(
    tree: TokenTree, parent: int, tokens: list[int], sampled_from: Any, replacement: bool = False
) -> list[int]:
    """Note how `tokens` were drawn; returns them without those of probability 0."""
    sampled_from = sampled_from.cpu()
    likely = [token for token in tokens if sampled_from[token] > 0]
    tree.proposals[parent] = (likely, sampled_from, replacement)
    return likely


def _children(
    tree: TokenTree, parent: int, tokens: list[int], likely: list[float], confidence: float
) -> Iterable[int]:
    """Add `tokens` below `parent`; yields those that are likely enough to grow on."""
    for token, chance in zip(tokens, likely, strict=True):
        node = tree.add(parent, token, "draft", draft_probability=chance)
        if chance >= confidence:
            yield node


def probabilities(logits: Any, rows: list[int], tokens: list[list[int]]) -> list[list[float]]:
    """The draft's probability of each row's `tokens`, from raw logits [nodes, vocabulary]."""
    chosen = logits[rows].float()
    places = [(number, token) for number, row in enumerate(tokens) for token in row]
    if not places:
        return [[] for _ in tokens]
    index = chosen.new_tensor(places).long()
    flat = iter(
        (chosen[index[:, 0], index[:, 1]] - chosen.logsumexp(-1)[index[:, 0]]).exp().tolist()
    )
    return [[next(flat) for _ in row] for row in tokens]
