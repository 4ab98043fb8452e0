"""A method that guesses as another one does, and keeps what its guesses show of the future."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from leapdecode.core import Sequence, TokenTree
from leapdecode.methods.base import Asking, Method, NoMore
from leapdecode.methods.jacobi import FILL
from leapdecode.methods.registry import fresh
from leapdecode.reasoning.fastcot.branch import AnswerBranch
from leapdecode.reasoning.fastcot.trigger import Trigger
from leapdecode.verify.walk import Verdict

TAKEN_OVER = (
    "needs_draft", "takes_draft", "proposes", "takes_pool", "takes_store", "likeliest",
)  # fmt: skip
ALTERNATIVES = 8  # among which the probability of an answer's token is taken


@dataclass
class Glimpse(Method):
    """`inner`, until a number of iterations or until the answer that can be read stays the same.

    After an iteration (a forward of the target that gave tokens) the *approximate tokens* are the
    likeliest chain of guesses that `inner` would have evaluated next, up to the first that no
    forward has updated, to an end of the text or to an answer trigger (FastCoT, 4.2 and 4.3).

    With `unchanged`, every tree also holds the approximate tokens, the trigger and the answer as it
    was last read, so the answer after that glimpse is read in the same forward.

    Attributes:
        inner: the method that decodes the text.
        trigger: the answer trigger.
        iterations: the text is given up after so many; None: never.
        unchanged: the text is given up when so many readings in a row gave the same answer; 0: it
            is not read.
        ends_answer: whether an answer ends with the last of these tokens.
        answer_tokens: the most tokens of an answer that is read.
        confidence: an answer counts where its probability is at least this.
        rows: a request's token budget.
        record: keep the approximate tokens of every iteration.
        stop: strings that end the text.
    """

    name = "glimpse"
    paper = "FastCoT, arXiv 2311.08263"

    inner: Method
    trigger: Trigger
    iterations: int | None = None
    unchanged: int = 0
    ends_answer: Callable[[list[int]], bool] = field(default=lambda _: False, repr=False)
    answer_tokens: int = 8
    confidence: float = 0.0
    rows: int | str | None = None
    record: bool = False
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.inner = fresh(self.inner)
        same = {name: getattr(self.inner, name) for name in TAKEN_OVER}
        if self.confidence:
            same["likeliest"] = max(self.inner.likeliest, ALTERNATIVES)
        for name, value in {**same, "budget": self.rows}.items():
            setattr(self, name, value)  # of this object, where a class has one for all

    @property
    def asks_draft(self) -> bool:
        """As `inner`."""
        self.inner.has_draft = self.has_draft
        return self.inner.asks_draft

    def begin(self, sequence: Sequence) -> None:
        for name in ("planner", "pool", "store", "has_draft"):
            setattr(self.inner, name, getattr(self, name))
        self.inner.begin(sequence)
        self.branch = AnswerBranch(
            self.trigger.ids, self.ends_answer, self.answer_tokens, self.confidence
        )
        self.approximate: list[int] = []
        self.behind = 0  # exact tokens
        self.history: list[tuple[int, list[int]]] = []
        self.own = self.asked = TokenTree(sequence.pending)
        self.answer: list[int] | None = None

    def propose(self, sequence: Sequence) -> Asking:
        if self.answer is not None:
            raise NoMore
        proposed = yield from self.inner.propose(sequence)
        self.own = self.asked = proposed
        done = self.iterations is not None and len(sequence.steps) >= self.iterations
        self.branch.nodes = []
        if not (done or self.unchanged or self.record):
            return proposed
        nodes = glimpse_of(proposed)
        self._keep(sequence, [proposed.tokens[node] for node in nodes])
        if done:
            raise NoMore
        if self.unchanged and self.trigger.begun(sequence.generated, self.approximate) is None:
            shown = len(self.approximate) - sequence.carried
            self.asked = proposed.copy()
            self.branch.add(self.asked, nodes[: max(shown, 0)])
        return self.asked

    def _keep(self, sequence: Sequence, guesses: list[int]) -> None:
        """The approximate tokens: what is carried, and guesses up to an end."""
        carried = sequence.tokens[len(sequence.tokens) - sequence.carried :]
        found = carried + guesses
        ends = [place for place, token in enumerate(found) if token in sequence.end_tokens]
        found = self.trigger.before(self.stop, found[: ends[0]] if ends else found)
        self.approximate = found[: self.trigger.place(found)]
        self.behind = len(sequence.generated)
        if self.record:
            self.history.append((self.behind, self.approximate))

    def required_nodes(self) -> set[int]:
        return self.inner.required_nodes() | self.branch.required(self.asked)

    def observe(self, sequence: Sequence, tree: TokenTree, verdict: Verdict) -> None:
        size = len(self.own)
        self.own.skipped = frozenset(node for node in tree.skipped if node < size)
        told = [found[: self.inner.likeliest] for found in verdict.likeliest[:size]]
        path = [node for node in verdict.path if node < size]
        own = Verdict(path, verdict.tokens, verdict.sources, verdict.choices[:size], told)
        self.inner.observe(sequence, self.own, own)
        if self.unchanged:
            repeats = self.branch.read(verdict.choices, verdict.likeliest)
            self.answer = self.branch.answer if repeats >= self.unchanged else None

    def artifacts(self) -> dict[str, Any]:
        """The approximate tokens, how many exact ones they stood `behind`, the answer that was read
        there (None where it did not end the text), and with `record` (exact tokens, approximate
        tokens) before the first iteration and after each.
        """
        return {
            **self.inner.artifacts(),
            "approximate": self.approximate,
            "behind": self.behind,
            "answer": self.answer,
            "history": self.history,
        }


def glimpse_of(tree: TokenTree) -> list[int]:
    """The nodes of the likeliest chain from below the root on, as far as a forward or a pool knows
    them.
    """
    below: dict[int, list[int]] = {}
    for node in range(1, len(tree)):
        if tree.sources[node] != FILL:
            below.setdefault(tree.parents[node], []).append(node)
    nodes, at = list[int](), 0
    while at in below:
        at = max(below[at], key=lambda node: _likely(tree, node))
        nodes.append(at)
    return nodes


def _likely(tree: TokenTree, node: int) -> tuple[float, int, int]:
    """How likely a guess is among those at its parent; the first of equal ones."""
    chance = tree.chances[node] or tree.draft_probabilities[node]
    return chance, tree.match_lengths[node], -node
