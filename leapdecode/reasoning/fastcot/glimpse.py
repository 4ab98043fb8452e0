"""FastCoT's decoding of a rationale (Zhang et al. 2023, arXiv 2311.08263, 4.2 and 4.3).

    guesses := the question's tokens                                        QuestionJacobi
    repeat
        tree := what the inner method proposes next                         Glimpse.propose
        approximate tokens := the likeliest chain of guesses in the tree    glimpse_of
        stop after a number of iterations, or when the answer behind the
            approximate tokens has not changed for some iterations          AnswerBranch
        verify the tree: accepted tokens become exact                       Glimpse.observe

An iteration is a forward of the target that gives tokens.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from leapdecode.core import Sequence as TokenSequence
from leapdecode.core import TokenTree
from leapdecode.methods.base import Asking, Method, NoMore
from leapdecode.methods.context import MethodContext
from leapdecode.methods.jacobi import FILL, Jacobi
from leapdecode.methods.registry import fresh
from leapdecode.reasoning.fastcot.trigger import Trigger
from leapdecode.verify.walk import Verdict

Likely = Sequence[tuple[int, float]]  # the likeliest tokens at a node, with their probabilities

INNER_ATTRIBUTES = (
    "needs_draft", "takes_draft", "proposes", "takes_pool", "takes_store", "likeliest",
)  # fmt: skip
ALTERNATIVES = 8  # among which the probability of an answer's token is taken


@dataclass
class QuestionJacobi(Jacobi):
    """Jacobi decoding over a buffer that is filled with a question's tokens, over and over (4.2).

    Where `initial` or `refill` is "prompt", the question's tokens take the place of the prompt's,
    which begins with worked examples.

    Attributes:
        question: its token ids; if empty, the prompt's are taken.
    """

    question: list[int] = field(default_factory=list, repr=False)

    def begin(self, sequence: TokenSequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        if self.question:
            self.prompt = self.question
            self.guesses = self.top_up([], self.size(), self.initial, sequence.tokens)


class AnswerBranch:
    """Nodes behind a glimpse: the trigger, then the answer as it was last read.

    The target's choices at these nodes are what it would say behind the glimpse: those behind the
    trigger are right up to the first that differs from the node below it, and that one too. So an
    answer that stays the same is read whole in each forward; one that changes takes a forward a
    token.

    Args:
        trigger: ids of the answer trigger, at least one.
        ends: whether an answer ends with the last of these tokens.
        max_tokens: the most tokens of an answer that are read.
        confidence: an answer counts where the product of its tokens' probabilities is at least
            this.

    Attributes:
        answer: as it was last read whole, None before that.
        nodes: of the last tree: the trigger's, then the answer's.
        repeats: how many readings in a row have given the same whole answer.
    """

    def __init__(
        self,
        trigger: Sequence[int],
        ends: Callable[[list[int]], bool],
        max_tokens: int,
        confidence: float = 0.0,
    ) -> None:
        self.trigger = list(trigger)
        self.ends = ends
        self.max_tokens = max_tokens
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
        ancestors = tree.ancestors[self.nodes[-1]]  # a bit per node
        return {node for node in range(1, len(tree)) if ancestors >> node & 1}

    def read(self, choices: Sequence[int], likeliest: Sequence[Likely] = ()) -> int:
        """Read the answer from the target's choices at the nodes of the last tree, and its
        probability from the `likeliest` tokens there.

        Returns `repeats`.
        """
        nodes = self.nodes[len(self.trigger) - 1 :]
        predicted = [choices[node] for node in nodes]
        if not predicted or -1 in predicted:
            return self.repeats
        num_right = 1
        while num_right < len(predicted) and predicted[num_right - 1] == self.guess[num_right - 1]:
            num_right += 1
        sizes = range(1, len(predicted) + 1)
        size = next((n for n in sizes if n == self.max_tokens or self.ends(predicted[:n])), None)
        self.guess = predicted[: (self.max_tokens if size is None else size) - 1]
        is_whole = size is not None and size <= num_right
        if is_whole and self.confidence:
            is_whole = _probability(nodes[:size], likeliest) >= self.confidence
        if is_whole:
            self.repeats = self.repeats + 1 if self.answer == predicted[:size] else 1
            self.answer = predicted[:size]
        else:
            self.repeats = 0
        return self.repeats


def _probability(nodes: Sequence[int], likeliest: Sequence[Likely]) -> float:
    """The probability of the likeliest tokens behind all of these nodes."""
    return math.prod(likeliest[node][0][1] for node in nodes)


@dataclass
class Glimpse(Method):
    """Decodes as `inner` does, until a number of iterations, or until the answer behind the
    approximate tokens stays the same.

    The *approximate tokens* are the likeliest chain of guesses that `inner` would have evaluated
    next, up to the first that no forward has updated, to an end of the text or to an answer
    trigger.

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
        values = {name: getattr(self.inner, name) for name in INNER_ATTRIBUTES}
        if self.confidence:
            values["likeliest"] = max(self.inner.likeliest, ALTERNATIVES)
        for name, value in {**values, "budget": self.rows}.items():
            setattr(self, name, value)  # of this object, where a class has one for all

    def asks_draft(self, has_draft: bool) -> bool:
        """As `inner`."""
        return self.inner.asks_draft(has_draft)

    def begin(self, sequence: TokenSequence, context: MethodContext) -> None:
        super().begin(sequence, context)
        self.inner.begin(sequence, context)
        self.branch = AnswerBranch(
            self.trigger.ids, self.ends_answer, self.answer_tokens, self.confidence
        )
        self.approximate: list[int] = []
        self.num_exact = 0  # tokens before the approximate ones
        self.iterates: list[tuple[int, list[int]]] = []
        self.inner_tree = self.tree = TokenTree(sequence.pending)
        self.answer: list[int] | None = None

    def propose(self, sequence: TokenSequence) -> Asking:
        if self.answer is not None:
            raise NoMore
        self.inner_tree = self.tree = yield from self.inner.propose(sequence)
        self.branch.nodes = []
        is_last = self.iterations is not None and len(sequence.steps) >= self.iterations
        if not (is_last or self.unchanged or self.record):
            return self.tree
        nodes = glimpse_of(self.inner_tree)
        self._keep(sequence, [self.inner_tree.tokens[node] for node in nodes])
        if is_last:
            raise NoMore
        if self.unchanged and self._before_trigger(sequence):
            num_guesses = max(len(self.approximate) - sequence.carried, 0)
            self.tree = self.inner_tree.copy()
            self.branch.add(self.tree, nodes[:num_guesses])
        return self.tree

    def _keep(self, sequence: TokenSequence, guesses: list[int]) -> None:
        """Set the approximate tokens: what is carried, and guesses up to an end."""
        carried = sequence.tokens[len(sequence.tokens) - sequence.carried :]
        tokens = carried + guesses
        ends = [place for place, token in enumerate(tokens) if token in sequence.end_tokens]
        # a stop string may begin in the exact tokens, of which most say a character at least
        exact = sequence.generated[-max(map(len, self.stop), default=1) :]
        text = self.trigger.cut_at_end(
            [*exact, *(tokens[: ends[0]] if ends else tokens)], self.stop
        )
        tokens = text[len(exact) :]
        self.approximate = tokens[: self.trigger.find(tokens)]
        self.num_exact = len(sequence.generated)
        if self.record:
            self.iterates.append((self.num_exact, self.approximate))

    def _before_trigger(self, sequence: TokenSequence) -> bool:
        """Whether the text has not begun to say its answer."""
        return self.trigger.find_start(sequence.generated, self.approximate) is None

    def required_nodes(self) -> set[int]:
        return self.inner.required_nodes() | self.branch.required(self.tree)

    def observe(self, sequence: TokenSequence, tree: TokenTree, verdict: Verdict) -> None:
        size = len(self.inner_tree)  # nodes of the branch come behind
        self.inner_tree.skipped = frozenset(node for node in tree.skipped if node < size)
        likeliest = [tokens[: self.inner.likeliest] for tokens in verdict.likeliest[:size]]
        path = [node for node in verdict.path if node < size]
        inner_verdict = Verdict(
            path, verdict.tokens, verdict.sources, verdict.choices[:size], likeliest
        )
        self.inner.observe(sequence, self.inner_tree, inner_verdict)
        if self.unchanged:
            repeats = self.branch.read(verdict.choices, verdict.likeliest)
            self.answer = self.branch.answer if repeats >= self.unchanged else None

    def artifacts(self) -> dict[str, Any]:
        """The approximate tokens, the number of exact ones before them, the answer that was read
        there (None where it did not end the text), and with `record` (exact tokens, approximate
        tokens) before the first iteration and after each.
        """
        return {
            **self.inner.artifacts(),
            "approximate": self.approximate,
            "num_exact": self.num_exact,
            "answer": self.answer,
            "history": self.iterates,
        }


def glimpse_of(tree: TokenTree) -> list[int]:
    """The nodes of the likeliest chain below the root, without guesses that no forward has updated
    and no pool or draft knows.
    """
    children: dict[int, list[int]] = {}
    for node in range(1, len(tree)):
        if tree.sources[node] != FILL:
            children.setdefault(tree.parents[node], []).append(node)
    nodes = list[int]()
    node = 0
    while node in children:
        node = max(children[node], key=lambda child: _likelihood(tree, child))
        nodes.append(node)
    return nodes


def _likelihood(tree: TokenTree, node: int) -> tuple[float, int, int]:
    """How likely a guess is among those at its parent; the first of equal ones."""
    probability = tree.chances[node] or tree.draft_probabilities[node]
    return probability, tree.match_lengths[node], -node
