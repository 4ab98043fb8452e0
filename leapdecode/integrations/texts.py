"""Texts that an engine of someone else's decodes, which tells nothing but the tokens that it took.

A method of ours proposes its tree as ever. The engine verifies that, or the likeliest path of it
where it takes chains alone. What it takes is read as the target's choices along that path, so the
method learns as it does here.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass

from leapdecode.core import SamplingParams, Sequence, TokenTree
from leapdecode.errors import OptionError
from leapdecode.methods.base import Method
from leapdecode.methods.context import MethodContext
from leapdecode.methods.planner import Planner
from leapdecode.methods.registry import fresh
from leapdecode.pools.recycled import RecycledTokens
from leapdecode.pools.store import Store
from leapdecode.verify.walk import walk

LEAST = 0.1  # a guess that is less likely to be accepted is not worth its row
CERTAIN = 1.0  # a token that was taken: nothing is known of the others
ENDLESS = SamplingParams(max_tokens=1 << 30)  # the engine says when a text ends
MOST_PAIRS = 1 << 18  # of recycled tokens; about 300 bytes each


@dataclass
class LikelyPlanner(Planner):
    """A planner that knows no costs: a tree grows by nodes that are likely enough to be accepted.

    Attributes:
        least: the smallest probability that a node of a tree is accepted with.
    """

    least: float = LEAST

    def floor(self, context: int) -> Callable[[float, int], bool]:
        """Whether a tree may grow by a node of this probability of being accepted."""
        return lambda probability, size: probability >= self.least


class Shared:
    """What texts of one engine learn from each other.

    Args:
        method: the method of all texts; it may ask for no forwards.
        store: whether texts that have ended are guessed from, by methods that take a store.
        least: guesses that are less likely to be accepted are left out.

    Raises `OptionError` for a method that needs a draft.
    """

    def __init__(self, method: Method, store: bool = True, least: float = LEAST) -> None:
        if method.needs_draft:
            raise OptionError(
                f"method {method.name!r} needs a draft model, and this engine gives it none; "
                "choose prompt_lookup, suffix, token_recycling or hybrid"
            )
        self.method, self.recycled = method, RecycledTokens()
        self.planner = LikelyPlanner(least=least)
        self.store = Store() if store and method.takes_store else None

    def begin(self, sequence: Sequence) -> Method:
        """A method at the beginning of a text."""
        method = fresh(self.method)
        store = None if self.store is None else self.store.earlier(sequence)
        context = MethodContext(self.planner, store=store, recycled=self.recycled)
        method.begin(sequence, context)
        return method

    def end(self, sequence: Sequence) -> None:
        """Take in a text that has ended; forget what was recycled once that is too much."""
        if len(self.recycled.by_pair) > MOST_PAIRS:
            self.recycled.by_pair.clear()
        if self.store is not None:
            completion = sequence.tokens[sequence.prompt_length :]
            self.store.keep(sequence.prompt, completion, sequence.stream)


class Text:
    """A text of another engine: its tokens as far as they are known, and the tree behind them.

    Args:
        shared: what it has in common with the engine's other texts.
        prompt: its token ids; at least one.
    """

    def __init__(self, shared: Shared, prompt: list[int]) -> None:
        self.shared, self.sequence = shared, Sequence(prompt, ENDLESS)
        self.method = shared.begin(self.sequence)
        self.last: TokenTree | None = None

    def __len__(self) -> int:
        return len(self.sequence.tokens)

    def tree(self, taken: list[int]) -> TokenTree:
        """What may follow, once the engine took `taken`; likely nodes come first.

        Args:
            taken: the tokens behind the known ones: the guesses that were accepted, and the
                target's own choice behind them.
        """
        if self.last is not None:
            self._observe(self.last, taken)
        else:
            self.sequence.tokens += taken
        self.last = self._propose()
        return self.last

    def chain(self, taken: list[int], most: int) -> list[int]:
        """As `tree`, of which it gives the likeliest path, at most `most` token ids."""
        return self._likeliest(self.tree(taken), most)

    def _observe(self, tree: TokenTree, taken: list[int]) -> None:
        choices, node = [-1] * len(tree), 0
        for token in taken:
            choices[node] = token
            child = tree.child(node, token)
            if child is None:
                break
            node = child
        verdict = walk(tree, choices)
        verdict.likeliest = [[(token, CERTAIN)] if token >= 0 else [] for token in choices]
        self.sequence.tokens += taken
        self.shared.planner.learn(tree, verdict)
        self.method.observe(self.sequence, tree, verdict)

    def _propose(self) -> TokenTree:
        proposing = self.method.propose(self.sequence)
        assert isinstance(proposing, Generator), "methods of ours propose in generators"
        try:
            next(proposing)
        except StopIteration as ended:
            tree: TokenTree = ended.value
            return tree
        raise OptionError(
            f"method {self.method.name!r} asks for forwards of its own, which this engine does not "
            "run; choose prompt_lookup, suffix, token_recycling or hybrid"
        )

    def _likeliest(self, tree: TokenTree, most: int) -> list[int]:
        """The likeliest path from the root, as far as its nodes may well be accepted."""
        reached = self.shared.planner.rates.reached(tree)
        children: dict[int, list[int]] = {}
        for node in range(1, len(tree)):
            children.setdefault(tree.parents[node], []).append(node)
        path: list[int] = []
        node = 0
        while len(path) < most and node in children:
            node = max(children[node], key=reached.__getitem__)
            if reached[node] < self.shared.planner.least:
                break
            path.append(tree.tokens[node])
        return path
