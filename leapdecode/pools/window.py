"""The lookahead window: a grid of Jacobi trajectories whose columns become n-grams.

`levels[l][j]` is the guess for the token l + j places behind the pending token; `levels[0][0]` is
the pending token itself. Level l was guessed l steps after level 0.
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
        filler: tokens that new columns start from.
        shift: move the window by the accepted length; False keeps it in place, as the published
            code does.
    """

    def __init__(
        self, width: int, ngram: int, filler: list[int], source: random.Random, shift: bool = True
    ) -> None:
        self.width, self.height, self.shift = width, ngram - 1, shift
        self.filler, self.random = filler, source
        self.levels = [self._fill(width)]
        self.stale = [0] * width  # per column, how many of its lower levels are still filler
        self.nodes: list[list[int]] = []

    def resize(self, width: int, pending: int) -> None:
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
        self.restart(pending)

    def _fill(self, count: int) -> list[int]:
        """Guesses to start from: `count` random tokens of the filler."""
        return [self.random.choice(self.filler) for _ in range(count)]

    def restart(self, pending: int) -> None:
        """Go on behind another text: the pending token is new, the guesses stay."""
        if self.width:
            self.levels[0][0] = pending

    def place(self, tree: TokenTree) -> None:
        """Add the window's cells to `tree`: (0, j) below (0, j-1), (l, j) below (l-1, j); the root
        is (0, 0).
        """
        if not self.width:
            self.nodes = []
            return
        first = [0, *tree.add_chain(0, self.levels[0][1:], "window")]
        self.nodes = [first]
        for level in self.levels[1:]:
            below = self.nodes[-1]
            self.nodes.append(
                [tree.add(below[j], token, "window") for j, token in enumerate(level)]
            )

    def advance(self, choices: list[int], accepted: int, pending: int, pool: NgramPool) -> None:
        """Learn the target's choices at the deepest level, harvest full columns, and shift by
        `accepted` tokens.

        `choices` are those of the tree that `place` filled; a choice of -1 (not evaluated) ends the
        window's growth.
        """
        if not self.nodes:
            return
        new = [choices[node] for node in self.nodes[-1]]
        if min(new) < 0:
            self.levels[0][0] = pending
            return
        self.levels.append(new)
        is_full = len(self.levels) > self.height
        if is_full:
            self._harvest(pool)
        self._move(int(is_full), accepted, pending)

    def _harvest(self, pool: NgramPool) -> None:
        """Add the n-grams of columns that hold no filler."""
        for column in range(self.width):
            if not self.stale[column]:
                values = tuple(level[column] for level in self.levels[1:])
                pool.add(self.levels[0][column], values, HARVESTED)

    def _move(self, dropped: int, accepted: int, pending: int) -> None:
        """Leave out the lowest `dropped` levels, and columns for tokens that the text has now."""
        offset = (accepted if self.shift else 1) - dropped
        self.levels = self.levels[dropped:]
        incoming = min(offset, self.width)
        self.levels = [level[offset:] + self._fill(incoming) for level in self.levels]
        stale = [max(count - dropped, 0) for count in self.stale]
        self.stale = stale[offset:] + [len(self.levels)] * incoming
        self.levels[0][0] = pending
