"""One sequence's cached tokens on one model."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from leapdecode.core import Forward, Sequence, TokenTree
from leapdecode.model.masks import RowPlan

KEPT_LOGITS = 16  # of tokens decoded exactly


@dataclass(frozen=True, slots=True)
class Room:
    """The size of a cache: of how many sequences, and of how many slots each."""

    batch_slots: int
    slots: int


@dataclass(slots=True)
class SequenceCache:
    """A model's cached tokens for one sequence, in one batch slot; `evaluated` nodes of `tree` lie
    behind them.

    Attributes:
        prompt_length: tokens of the prompt.
        salt: other texts may have what is cached if theirs is the same.
        resets: how often all texts had been forgotten when this one joined.
        changes: how often the model had changed when this one joined; others hold keys of other
            weights.
        reused: how many of the cached tokens were computed for other texts.
        drawn: whether the rejection verifier decides, so that what is decoded is not exact.
        prompt_rows: rows of the forward that cached the end of its prompt.
        exact: how many of the last cached tokens were decoded exactly, one step after the other.
        logits: of the last of them, [V] each.
        shown: the logits [V] of the tree's nodes, under exact decoding.
    """

    batch_slot: int
    tokens: list[int] = field(default_factory=list)
    tree: TokenTree | None = None
    evaluated: int = 0
    agreed: int = 0
    salt: str = ""
    resets: int = 0
    changes: int = 0
    prompt_length: int = 0
    reused: int = 0
    drawn: bool = False
    prompt_rows: int = 0
    exact: int = 0
    logits: list[Tensor] = field(default_factory=list)
    shown: dict[int, Tensor] = field(default_factory=dict)

    @property
    def lacks_prompt(self) -> bool:
        """Whether tokens of the prompt are to be cached, of which the last is part of a tree."""
        return len(self.tokens) < self.prompt_length - 1

    def may_have(self, other: SequenceCache) -> bool:
        """Whether what the `other` one has cached may be copied: it is of the same weights, and the
        same clients' own.
        """
        return self.resets == other.resets and self.salt == other.salt

    def note_exact(self, count: int, logits: list[Tensor]) -> None:
        """So many tokens more were decoded exactly; with 0, none of those cached counts as such."""
        self.exact = self.exact + count if count else 0
        self.logits = [*self.logits, *logits][-KEPT_LOGITS:] if count else []

    def plan(self, request: Forward, max_length: int) -> RowPlan:
        """What is missing of the text, then the nodes of the tree that are new and of use."""
        tree, text = request.tree, request.sequence.tokens
        if self.tree is not tree:
            self.tree, self.evaluated = tree, 0
        start, base = len(self.tokens), max(len(self.tokens), len(text) - 1)
        deepest = deepest_of(request.sequence, base, max_length)
        if deepest < 0:  # a draft whose context is full evaluates nothing more
            self.tree = None
            return RowPlan(
                self.batch_slot, start, start, [], [], tree.tokens, tree.ancestors, tree.depths
            )
        new = range(self.evaluated, len(tree))
        nodes = [n for n in new if tree.depths[n] <= deepest and n not in tree.skipped]
        missing = text[start:base]
        return RowPlan(
            self.batch_slot, start, base, missing, nodes, tree.tokens, tree.ancestors, tree.depths
        )

    def cut(self, text: list[int]) -> None:
        """Keep what is cached of `text`, and no tree."""
        self.agreed = common_prefix(self.tokens, text, min(self.agreed, len(text)))
        del self.tokens[self.agreed :]
        self.note_exact(0, [])
        self.tree, self.evaluated = None, 0


def deepest_of(sequence: Sequence, base: int, max_length: int) -> int:
    """The depth of the last nodes of use behind `base` tokens: by the token limit, and in a context
    of `max_length`.
    """
    return min(sequence.limit - 2, max_length - 1) - base


def common_prefix(first: list[int] | str, second: list[int] | str, known: int = 0) -> int:
    """Length of the longest common prefix, of which `known` items are already known to agree;
    found by halving.
    """
    high = min(len(first), len(second))
    low = min(known, high)
    if first[low:high] == second[low:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle
    return low
