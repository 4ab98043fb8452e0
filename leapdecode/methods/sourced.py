"""What methods share that join sources in one tree."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from leapdecode.core import Asked, Forward, ForwardResult, TokenTree
from leapdecode.core import Sequence as TokenSequence
from leapdecode.methods.base import Asking, Method, option, private_random
from leapdecode.methods.candidates import Candidates
from leapdecode.methods.context import MethodContext
from leapdecode.methods.growing import Growth
from leapdecode.sources import Source
from leapdecode.sources.base import SourceContext
from leapdecode.verify.walk import Verdict

LIKELIEST = 8  # tokens per node that are recycled, or that a draft names
# a draft evaluates nodes that the walk reaches at least with this chance, so many per forward
LEAST, DRAFTED = 0.02, 16
TRAINED = 2.0  # tokens per step that a window is hoped to gain where the model was trained for it
DRAFT_FORWARDS = 16  # per step, at most


@dataclass
class Sourced(Method):
    """Grows its trees best first from what its `sources` propose."""

    nodes: int = option(64, "most nodes of a tree", low=1, search=(8, 16, 32))
    resting = False  # whether the tree under way is a root alone: guesses have long not paid

    def sources(self) -> Sequence[type[Source]]:
        """The sources that take part, in their order."""
        raise NotImplementedError

    def window_size(self, trained_block: int) -> int:
        """Guesses that the model's own choices replace from step to step (Jacobi decoding)."""
        return 0

    @property
    def likeliest(self) -> int:  # type: ignore[override]
        recycles = any(source.recycles for source in self.sources())
        return LIKELIEST if recycles and not self.resting else 0

    def required_nodes(self) -> set[int]:
        return set() if self.growth is None else self.growth.planted

    def begin(self, sequence: TokenSequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        planner = context.planner
        self.random = private_random(0, sequence)
        self.updated: list[int] = []  # of the window, what the target chose
        self.max_window = self.window_size(context.trained_block)
        chances = planner.noisy if sequence.knows_noise else planner.chances
        if context.trained_block:
            planner.window.hoped = TRAINED
        known = SourceContext(sequence, context.store, context.recycled)
        self.candidates = Candidates(self.sources(), known, chances)

    def propose(self, sequence: TokenSequence) -> Asking:
        planner = self.context.planner
        tree = TokenTree(sequence.pending)
        self.before = sequence.tokens[-2] if len(sequence.tokens) > 1 else -1
        self.candidates.read(sequence.tokens)
        self.growth: Growth | None = None
        self.resting = planner.rests()
        if self.resting:
            return tree
        window = self._window(sequence) if self.max_window else []
        growth = self.growth = Growth(sequence, tree, self.candidates, window, len(self.updated))
        most = self._most(sequence)
        if self.context.has_draft:
            yield from self._draft(growth, most)
        growth.grow(most, planner.floor(len(sequence.tokens)))
        growth.prune(most)
        return tree

    def _window(self, sequence: TokenSequence) -> list[int]:
        """The Jacobi guesses behind the pending token: the target's choices at the last ones, and
        new ones from the text.
        """
        columns = self.context.planner.columns(
            self.max_window + 1, 1, len(sequence.tokens), carried=sequence.carried
        )
        width = min(self.max_window, self.nodes - 1, sequence.remaining - 1, columns - 1)
        width = max(width, 0)
        self.updated = self.updated[:width]
        missing = width - len(self.updated)
        return self.updated + [self.random.choice(sequence.tokens) for _ in range(missing)]

    def _most(self, sequence: TokenSequence) -> int:
        """Rows of a tree at most."""
        most = self.context.planner.most(len(sequence.tokens))
        return self.nodes if most is None else min(self.nodes, most)

    def _draft(self, growth: Growth, most: int) -> Generator[Asked, ForwardResult | None, None]:
        """Let the draft evaluate the likeliest nodes, those that it adds too, while that pays.

        Not all of them pay as rows of the target: a row of the draft costs less, and a guess that
        the draft confirms saves one of its forwards.
        """
        planner = self.context.planner
        context = len(growth.sequence.tokens)
        floor = planner.draft_floor(context)

        def pays(chance: float, rows: int) -> bool:
            return chance >= LEAST and rows < DRAFTED and (floor is None or floor(chance, rows))

        for _ in range(DRAFT_FORWARDS):
            growth.grow(most, pays, for_draft=True)
            nothing_new = len(growth.tree) == len(growth.drafted)
            if nothing_new or not planner.worth_asking(growth.undrafted(), context):
                return
            output = yield Forward("draft", growth.sequence, growth.tree, likeliest=LIKELIEST)
            assert output is not None, "the engine answers every Forward with a ForwardResult"
            if not output.nodes:  # the token limit, or the draft's context, ends here
                return
            growth.add_draft(output)

    def observe(self, sequence: TokenSequence, tree: TokenTree, verdict: Verdict) -> None:
        if self.growth is None:
            self.updated = []  # the target said nothing of them
        else:
            self.growth.learn(verdict.path, verdict.choices, self.context.planner)
            if self.max_window:
                self._update(self.growth, tree, verdict)
        self.candidates.recycle(tree, self.before, verdict)

    def _update(self, growth: Growth, tree: TokenTree, verdict: Verdict) -> None:
        """Take the target's choices at the window's nodes that stand behind the new text, and tell
        the planner what the window gained.
        """
        behind = verdict.choices[len(verdict.tokens) : 1 + len(growth.planted)]
        self.updated = [choice for choice in behind if choice >= 0]
        gained = sum(tree.sources[node] == "window" for node in verdict.path)
        self.context.planner.judge_window(gained, len(tree) - len(tree.skipped))
