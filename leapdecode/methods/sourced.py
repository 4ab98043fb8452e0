"""What methods share that join sources of guesses in one tree."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from leapdecode.core import Asked, Forward, ForwardResult, Sequence, TokenTree
from leapdecode.methods.base import Asking, Method, option, private_random
from leapdecode.methods.evidence import Chances
from leapdecode.methods.growing import Growth
from leapdecode.methods.sources import Sources
from leapdecode.verify.walk import Verdict

LIKELIEST = 8  # tokens per node that are recycled, or that a draft tells
# a draft evaluates nodes that the walk reaches at least with this chance, so many per forward
LEAST, DRAFTED = 0.02, 16
TRAINED = 2.0  # tokens per step that a window is hoped to gain where the model was trained for it
ASKED = 16  # draft forwards per step at most


@dataclass
class Sourced(Method):
    """Grows its trees best first from the sources that `columns` names."""

    nodes: int = option(64, "most nodes of a tree", low=1, search=(8, 16, 32))
    resting = False  # whether the tree under way is a root alone: guesses have long not paid

    def columns(self) -> Iterable[str]:
        """Names of `evidence.COLUMNS`."""
        raise NotImplementedError

    @property
    def likeliest(self) -> int:  # type: ignore[override]
        if self.resting:
            return 0
        recycles = {"pair", "token", "last"} & set(self.columns())
        return LIKELIEST if recycles else 0

    @property
    def wanted_window(self) -> int:
        """Guesses that the model's own choices replace from step to step (Jacobi decoding)."""
        return 0

    def required_nodes(self) -> set[int]:
        return set() if self.growth is None else self.growth.planted

    def begin(self, sequence: Sequence) -> None:
        self.random = private_random(0, sequence)
        self.updated: list[int] = []  # of the window, what the target chose
        self.sources = Sources(self.columns(), self.store)
        if self.planner is not None and self.trained_block:
            self.planner.window.hoped = TRAINED
        noisy = sequence.knows_noise
        if self.planner is None:
            self.chances = Chances(noisy)
        else:
            self.chances = self.planner.noisy if noisy else self.planner.chances

    def propose(self, sequence: Sequence) -> Asking:
        tree = TokenTree(sequence.pending)
        self.before = sequence.tokens[-2] if len(sequence.tokens) > 1 else -1
        self.sources.read(sequence.tokens)
        self.growth: Growth | None = None
        self.resting = self.planner is not None and self.planner.rests()
        if self.resting:
            return tree
        window = self._window(sequence) if self.wanted_window else []
        growth = self.growth = Growth(
            sequence, tree, self.sources, self.chances, window=window, updated=len(self.updated)
        )
        most = self._most(sequence)
        if self.asks_draft:
            yield from self._draft(growth, most)
        planner, context = self.planner, len(sequence.tokens)
        growth.grow(most, planner.floor(context) if planner is not None else None)
        growth.prune(most)
        return tree

    def _window(self, sequence: Sequence) -> list[int]:
        """The Jacobi guesses behind the pending token: the target's choices at the last ones, and
        new ones from the prompt.
        """
        width = min(self.wanted_window, self.nodes - 1, max(sequence.remaining - 1, 0))
        if self.planner is not None:
            fitting = self.planner.columns(self.wanted_window + 1, 1, len(sequence.tokens)) - 1
            width = max(min(width, fitting), 0)
        self.updated = self.updated[:width]
        prompt = sequence.tokens[: sequence.prompt_length]
        missing = width - len(self.updated)
        return self.updated + [self.random.choice(prompt) for _ in range(missing)]

    def _most(self, sequence: Sequence) -> int:
        most = self.planner.most(len(sequence.tokens)) if self.planner is not None else None
        return self.nodes if most is None else min(self.nodes, most)

    def _draft(self, growth: Growth, most: int) -> Generator[Asked, ForwardResult | None, None]:
        """Let the draft evaluate the likeliest nodes, those that it adds too, while that pays.

        Not all of them pay as rows of the target: a row of the draft costs less, and a guess that
        the draft confirms saves one of its forwards.
        """
        sequence, tree = growth.sequence, growth.tree
        context, planner = len(sequence.tokens), self.planner
        floor = planner.draft_floor(context) if planner is not None else None

        def pays(chance: float, rows: int) -> bool:
            return chance >= LEAST and rows < DRAFTED and (floor is None or floor(chance, rows))

        for _ in range(ASKED):
            growth.grow(most, pays, drafted=True)
            rows = len(tree) - len(growth.asked)
            if rows == 0 or (
                planner is not None and not planner.worth_asking(growth.missing(), rows, context)
            ):
                return
            found = yield Forward("draft", sequence, tree, likeliest=LIKELIEST)
            assert found is not None, "the engine answers every Forward with a ForwardResult"
            if not found.nodes:  # the token limit, or the draft's context, ends here
                return
            growth.take(found)

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        if self.growth is None:
            self.updated = []  # the target said nothing of them
        else:
            self.growth.learn(verdict.path, verdict.choices, self.planner)
            if self.wanted_window:
                self._update(self.growth, tree, verdict)
        self.sources.recycle(tree.tokens, tree.parents, self.before, verdict)

    def _update(self, growth: Growth, tree: TokenTree, verdict: Verdict) -> None:
        """Take the target's choices at the window's nodes that stand behind the new text, and tell
        the planner what the window gained.
        """
        accepted = len(verdict.tokens)
        behind = verdict.choices[accepted : 1 + len(growth.planted)]
        self.updated = [choice for choice in behind if choice >= 0]
        if self.planner is not None:
            gained = sum(tree.sources[node] == "window" for node in verdict.path)
            self.planner.judge_window(gained, len(tree) - len(tree.skipped))
