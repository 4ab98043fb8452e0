"""An answer that is read in the forwards of the rationale."""

import math
from collections.abc import Callable, Sequence

from leapdecode.core import TokenTree

Likely = Sequence[tuple[int, float]]


class AnswerBranch:
    """Nodes behind a glimpse: the trigger, then the answer as it was last read.

    The choices there are what the model would say behind the glimpse: those behind the trigger are
    right up to the first that differs from the node below it, and that one too. So an answer that
    stays the same is read whole in each forward; one that changes takes a forward a token.

    Args:
        trigger: ids of the answer trigger, at least one.
        ends: whether an answer ends with the last of these tokens.
        most: tokens of an answer that are read.
        confidence: an answer counts where the product of its tokens' probabilities is at least
            this.

    Attributes:
        answer: as it was last read whole, None before that.
        nodes: of the last tree: the trigger's, then the answer's.
    """

    def __init__(
        self,
        trigger: Sequence[int],
        ends: Callable[[list[int]], bool],
        most: int,
        confidence: float = 0.0,
    ) -> None:
        self.trigger, self.ends, self.most = list(trigger), ends, most
        self.confidence = confidence
        self.guess: list[int] = []
        self.nodes: list[int] = []
        self.answer: list[int] | None = None
        self.repeats = 0

    def add(self, tree: TokenTree, glimpse: Sequence[int]) -> None:
        """Add the branch to `tree`, behind the nodes of a glimpse."""
        leaf = glimpse[-1] if glimpse else 0
        self.nodes = tree.add_chain(leaf, self.trigger + self.guess, "answer")

    def required(self, tree: TokenTree) -> set[int]:
        """The branch's nodes with their ancestors, without the root."""
        if not self.nodes:
            return set()
        seen = tree.ancestors[self.nodes[-1]]
        return {node for node in range(1, len(tree)) if seen >> node & 1}

    def read(self, choices: Sequence[int], likeliest: Sequence[Likely] = ()) -> int:
        """Read the answer from the target's choices at the nodes of the last tree, and their
        probabilities from what it found `likeliest` there.

        Returns how many readings in a row have given the same whole answer.
        """
        nodes = self.nodes[len(self.trigger) - 1 :]
        found = [choices[node] for node in nodes]
        if not found or -1 in found:
            return self.repeats
        right = 1
        while right < len(found) and found[right - 1] == self.guess[right - 1]:
            right += 1
        sizes = range(1, len(found) + 1)
        end = next((n for n in sizes if n == self.most or self.ends(found[:n])), None)
        self.guess = found[: self.most - 1 if end is None else end - 1]
        whole = end is not None and end <= right
        if whole and self.confidence:
            whole = _product(nodes[:end], likeliest) >= self.confidence
        if whole:
            self.repeats = self.repeats + 1 if self.answer == found[:end] else 1
            self.answer = found[:end]
        else:
            self.repeats = 0
        return self.repeats


def _product(nodes: Sequence[int], likeliest: Sequence[Likely]) -> float:
    """The probability of the likeliest tokens behind all of these nodes."""
    return math.prod(likeliest[node][0][1] for node in nodes)
