"""The lookahead window: a grid of Jacobi trajectories whose columns become n-grams.

`levels[l][j]` is the guess for the token l + j places behind the pending token; `place` puts the
pending token itself at `levels[0][0]`. Level l was guessed l steps after level 0.

A column is *stale* while one of its levels is filler. Columns that come in at the right are, and so
is a column whose deepest node was not evaluated (it is beyond the token limit, say): its newest
level is filler. The others go on.
"""

import random

from leapdecode.core import TokenTree
from leapdecode.pools.ngrams import NgramPool

HARVESTED = 1  # the match length of n-grams that come from a window


class LookaheadWindow:
    """W columns of at most `ngram` - 1 levels, with the mechanics of one step: place, harvest,
    shift.

    Args:
        width: columns (the paper's W).
        ngram: tokens of a harvested n-gram (the paper's N); 2 is Jacobi decoding.
        filler: tokens that new columns start from. Those of the window's first level count as real.
        shift: move the window by the accepted length; False keeps it in place, as the published
            code does.
    """

    def __init__(
        self, width: int, ngram: int, filler: list[int], source: random.Random, shift: bool = True
    ) -> None:
        self.width, self.height, self.shift = width, ngram - 1, shift
        self.filler, self.random = filler, source
        self.levels = [self._fill(width)]
        self.stale = [0] * width  # per column, 1 + its highest level of filler; 0: there is none
        self.nodes: list[list[int]] = []

    def resize(self, width: int) -> None:
        """Change the number of columns: the last ones are dropped, or new ones start from filler; 0
        rests.
        """
        if width and not self.width:
            self.levels = [self._fill(width)]
            self.stale = [0] * width
        added = width - self.width if self.width else 0
        self.levels = [level[:width] + self._fill(added) for level in self.levels]
        self.stale = self.stale[:width] + [len(self.levels)] * added
        self.width = width

    def _fill(self, count: int) -> list[int]:
        """Guesses to start from: `count` random tokens of the filler."""
        return [self.random.choice(self.filler) for _ in range(count)]

    def place(self, tree: TokenTree) -> None:
        """Add the window's cells to `tree`: (0, j) below (0, j-1), (l, j) below (l-1, j); (0, 0) is
        the root, whatever it was.
        """
        self.nodes = []
        if not self.width:
            return
        self.levels[0][0] = tree.tokens[0]
        first = [0, *tree.add_chain(0, self.levels[0][1:], "window")]
        self.nodes = [first]
        for level in self.levels[1:]:
            below = self.nodes[-1]
            self.nodes.append(
                [tree.add(below[j], token, "window") for j, token in enumerate(level)]
            )

    def advance(self, choices: list[int], accepted: int, pool: NgramPool) -> None:
        """Take the target's choices at the deepest level as a new one, harvest full columns, and
        shift by `accepted` tokens.

        `choices` are those of the tree that `place` filled, -1 where a node was not evaluated.
        """
        if not self.nodes:
            return
        newest = [choices[node] for node in self.nodes[-1]]
        for column, choice in enumerate(newest):
            if choice < 0:
                (newest[column],) = self._fill(1)
                self.stale[column] = len(self.levels) + 1
        self.levels.append(newest)
        is_full = len(self.levels) > self.height
        if is_full:
            self._harvest(pool)
        self._move(int(is_full), accepted)

    def _harvest(self, pool: NgramPool) -> None:
        """Add the n-grams of the columns that are not stale."""
        for column in range(self.width):
            if not self.stale[column]:
                values = tuple(level[column] for level in self.levels[1:])
                pool.add(self.levels[0][column], values, HARVESTED)

    def _move(self, dropped: int, accepted: int) -> None:
        """Leave out the lowest `dropped` levels, and columns for tokens that the text has now."""
        offset = (accepted if self.shift else 1) - dropped
        self.levels = self.levels[dropped:]
        incoming = min(offset, self.width)
        self.levels = [level[offset:] + self._fill(incoming) for level in self.levels]
        stale = [max(count - dropped, 0) for count in self.stale]
        self.stale = stale[offset:] + [len(self.levels)] * incoming
