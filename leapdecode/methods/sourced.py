"""What methods share that join sources of guesses in one tree."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from leapdecode.core import Asked, Forward, ForwardResult, Sequence, TokenTree
from leapdecode.methods.base import Asking, Method, option
from leapdecode.methods.evidence import Chances
from leapdecode.methods.growing import Growth
from leapdecode.methods.sources import Sources
from leapdecode.verify.walk import Verdict

LIKELIEST = 8  # tokens per node that are recycled, or that a draft tells
# a draft evaluates nodes that the walk reaches at least with this chance, so many at most
LEAST, DRAFTED = 0.15, 16
ASKED = 16  # draft forwards per step at most


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
        self.sources = Sources(self.columns(), self.store)
        self.chances = self.planner.chances if self.planner is not None else Chances()

    def propose(self, sequence: Sequence) -> Asking:
        tree = TokenTree(sequence.pending)
        self.before = sequence.tokens[-2] if len(sequence.tokens) > 1 else -1
        self.sources.read(sequence.tokens)
        self.growth: Growth | None = None
        if self.planner is not None and self.planner.rests():
            return tree
        growth = self.growth = Growth(sequence, tree, self.sources, self.chances)
        most = self._most(sequence)
        if self.asks_draft:
            yield from self._draft(growth, min(most, DRAFTED))
        growth.grow(most, self.planner)
        return tree

    def _most(self, sequence: Sequence) -> int:
        most = self.planner.most(len(sequence.tokens)) if self.planner is not None else None
        return self.nodes if most is None else min(self.nodes, most)

    def _draft(self, growth: Growth, most: int) -> Generator[Asked, ForwardResult | None, None]:
        """Let the draft evaluate the likeliest nodes, those that it adds too, while that pays."""
        sequence, tree = growth.sequence, growth.tree
        context = len(sequence.tokens)
        for _ in range(ASKED):
            growth.grow(most, self.planner, LEAST)
            rows = len(tree) - len(growth.asked)
            if rows == 0 or (
                self.planner is not None
                and not self.planner.worth_asking(growth.missing(), rows, context)
            ):
                return
            found = yield Forward("draft", sequence, tree, likeliest=LIKELIEST)
            assert found is not None, "the engine answers every Forward with a ForwardResult"
            if not found.nodes:  # the token limit, or the draft's context, ends here
                return
            growth.take(found)

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        if self.growth is not None:
            self.growth.learn(verdict.path, verdict.choices, self.planner)
        self.sources.recycle(tree.tokens, tree.parents, self.before, verdict)
