"""Lookahead decoding's two branches as one tree: n-grams of a pool to verify, and a window that
makes new ones.

Used by whoever decodes with lookahead: the target (`methods/lookahead.py`) or a draft
(`methods/ouroboros.py`).
"""

from dataclasses import dataclass
from itertools import islice

from leapdecode.core import TokenTree
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.window import HARVESTED, LookaheadWindow


@dataclass
class Branches:
    """A pool and a window, with what they do in a step.

    Attributes:
        pool: n-grams by their first token.
        window: the lookahead window; None verifies the pool's n-grams alone.
        size: tokens of an n-gram (the paper's N).
        guesses: n-grams verified per step (the paper's G).
        from_text: n-grams of the text enter the pool too.
    """

    pool: NgramPool
    window: LookaheadWindow | None
    size: int
    guesses: int
    from_text: bool

    def begin(self, tokens: list[int]) -> None:
        """Start behind `tokens`, the last of which is the next tree's root."""
        if self.from_text:
            self.pool.add_text(tokens, self.size)

    def tree(self, root: int, source: str, before: list[int] | None = None) -> TokenTree:
        """The next tree: the pool's newest n-grams as chains of `source` below the root; `place`
        adds the window.

        Given the tokens `before` the root, n-grams come first that followed more of them.
        """
        tree = TokenTree(root)
        for continuation, match_length in islice(self.pool.get(root, before), self.guesses):
            tree.add_chain(0, continuation[: self.size - 1], source, match_length)
        return tree

    def place(self, tree: TokenTree, width: int | None = None) -> None:
        """Add the window, of `width` columns from now on, to a tree."""
        if self.window is None:
            return
        if width is not None and width != self.window.width:
            self.window.resize(width)
        self.window.place(tree)

    @property
    def nodes(self) -> set[int]:
        """Nodes of the last tree that belong to the window, without the root."""
        if self.window is None:
            return set()
        return set().union(*self.window.nodes) - {0}

    def gained(self, tree: TokenTree, path: list[int]) -> int:
        """How many tokens of an accepted path there were thanks to the window."""
        return sum(
            tree.match_lengths[node] == HARVESTED or tree.sources[node] == "window" for node in path
        )

    def advance(self, choices: list[int], tokens: list[int], accepted: int) -> None:
        """Learn from a step whose last `accepted` of `tokens` are new."""
        if self.window is not None:
            self.window.advance(choices, accepted, self.pool)
        if self.from_text:
            self.pool.add_text(tokens, self.size, accepted)
