"""An answer that is read in the forwards of the rationale."""

from collections.abc import Callable, Sequence

from leapdecode.core import TokenTree


class AnswerBranch:
    """Nodes behind a glimpse: the trigger, then the answer as it was last read.

    The choices there are what the model would say behind the glimpse: those behind the trigger are
    right up to the first that differs from the node below it, and that one too. So an answer that
    stays the same is read whole in each forward; one that changes takes a forward a token.

    Args:
        trigger: ids of the answer trigger, at least one.
        ends: whether an answer ends with the last of these tokens.
        most: tokens of an answer that are read.

    Attributes:
        answer: as it was last read whole, None before that.
        nodes: of the last tree: the trigger's, then the answer's.
    """

    def __init__(
        self, trigger: Sequence[int], ends: Callable[[list[int]], bool], most: int
    ) -> None:
        self.trigger, self.ends, self.most = list(trigger), ends, most
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

    def read(self, choices: Sequence[int]) -> int:
        """Read the answer from the target's choices at the nodes of the last tree.

        Returns how many readings in a row have given the same whole answer.
        """
        found = [choices[node] for node in self.nodes[len(self.trigger) - 1 :]]
        if not found or -1 in found:
            return self.repeats
        right = 1
        while right < len(found) and found[right - 1] == self.guess[right - 1]:
            right += 1
        sizes = range(1, len(found) + 1)
        end = next((n for n in sizes if n == self.most or self.ends(found[:n])), None)
        self.guess = found[: self.most - 1 if end is None else end - 1]
        if end is None or end > right:
            self.repeats = 0
        else:
            self.repeats = self.repeats + 1 if self.answer == found[:end] else 1
            self.answer = found[:end]
        return self.repeats
