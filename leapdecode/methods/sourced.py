"""What methods without a draft share that join sources of guesses in one tree."""

from collections.abc import Iterable
from dataclasses import dataclass

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Method, option
from leapdecode.methods.evidence import Chances
from leapdecode.methods.growing import Growth
from leapdecode.methods.sources import Sources
from leapdecode.verify.walk import Verdict

LIKELIEST = 8  # tokens per node that are recycled


@dataclass
class Sourced(Method):
    """Grows its trees best first from the sources that `columns` names."""

    nodes: int = option(64, "most nodes of a tree", low=1, search=(8, 16, 32))

    def columns(self) -> Iterable[str]:
        """Names of `evidence.COLUMNS`."""
        raise NotImplementedError

    @property
    def likeliest(self) -> int:  # type: ignore[override]
        recycles = {"pair", "token", "last"} & set(self.columns())
        return LIKELIEST if recycles else 0

    def begin(self, sequence: Sequence) -> None:
        self.sources = Sources(self.columns(), self.bigrams, self.store)
        self.chances = self.planner.chances if self.planner is not None else Chances()

    def guess(self, sequence: Sequence) -> TokenTree:
        tree = TokenTree(sequence.pending)
        self.before = sequence.tokens[-2] if len(sequence.tokens) > 1 else -1
        self.sources.read(sequence.tokens)
        self.growth = Growth(sequence, tree, self.sources, self.chances)
        self.growth.grow(self._most(sequence), self.planner)
        return tree

    def _most(self, sequence: Sequence) -> int:
        most = self.planner.most(len(sequence.tokens)) if self.planner is not None else None
        return self.nodes if most is None else min(self.nodes, most)

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        self.growth.learn(verdict.path, verdict.choices)
        self.sources.recycle(tree.tokens, tree.parents, self.before, verdict)
