"""Trees under exact decoding: accepted at once is only what was computed as plain decoding computes
it.

Attention sums over keys in the order of their slots. The nodes of a tree's first chain stand in the
slots that they keep, so their logits are plain decoding's, bit for bit. The nodes of other branches
stand elsewhere: their sums have another order, and their logits may differ in the last bit.

So the walk's choices are final along the first chain alone. What it accepts behind that is
*carried*: the next tree begins with it, as its first chain, and the method guesses behind it. There
every carried token is compared with the exact choice before it, and its keys and values are
computed in the slots that they keep. A carried token costs a row of the next forward, and no
forward; one that is refused, which takes a near-tie, costs what was guessed behind it.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from leapdecode.core import Sequence, TokenTree
from leapdecode.verify.walk import Verdict


@dataclass(slots=True)
class Carried:
    """Tokens that were accepted but not exactly, with their sources."""

    tokens: list[int] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, sequence: Sequence, verdict: Verdict, final: int) -> "Carried":
        """What `verdict` accepted behind its `final` tokens, as far as the text may go."""
        if sequence.finish_reason is not None:
            return cls()
        tokens = verdict.tokens[final : final + sequence.remaining]
        ends = [place for place, token in enumerate(tokens) if token in sequence.end_tokens]
        tokens = tokens[: ends[0] + 1] if ends else tokens
        return cls(tokens, verdict.sources[final : final + len(tokens)])

    def ends(self, sequence: Sequence) -> bool:
        """Whether the text ends with these tokens (which it seems to hold), so that nothing is to
        be guessed.
        """
        return bool(self.tokens) and (
            sequence.remaining <= 0 or self.tokens[-1] in sequence.end_tokens
        )

    def behind(self, sequence: Sequence) -> contextlib.AbstractContextManager[None]:
        """Let the text seem to hold these tokens."""
        return self._behind(sequence) if self.tokens else contextlib.nullcontext()

    @contextlib.contextmanager
    def _behind(self, sequence: Sequence) -> Iterator[None]:
        length = len(sequence.tokens)
        sequence.tokens += self.tokens
        sequence.carried = len(self.tokens)
        try:
            yield
        finally:
            del sequence.tokens[length:]
            sequence.carried = 0


@dataclass(slots=True)
class Arranged:
    """The tree that the target evaluates, made of what is carried and of the method's own tree.

    Attributes:
        tree: its first chain starts with what is carried.
        carried: how many nodes that is.
        places: per node of the method's tree its node in `tree`, -1 where it is left out; None: as
            it is.
        exact: whether only the first chain's choices are final.
    """

    tree: TokenTree
    carried: int = 0
    places: list[int] | None = None
    exact: bool = False

    def final(self, verdict: Verdict) -> int:
        """How many of the accepted tokens are final: each is the choice at a node of the path."""
        path = verdict.path
        if not self.exact:
            return len(path)
        return next((place for place, node in enumerate(path) if node != place), len(path))

    def method_verdict(self, verdict: Verdict) -> Verdict | None:
        """What was accepted of the method's own tree, in its numbers; None where the walk ended
        before its root.
        """
        if self.places is None:
            return verdict
        if len(verdict.path) <= self.carried:
            return None
        node_of = {place: node for node, place in enumerate(self.places)}
        path = [node_of[place] for place in verdict.path[self.carried :]]
        choices = [verdict.choices[place] if place >= 0 else -1 for place in self.places]
        likeliest = verdict.likeliest
        if likeliest:
            likeliest = [likeliest[place] if place >= 0 else [] for place in self.places]
        return Verdict(
            path,
            verdict.tokens[self.carried :],
            verdict.sources[self.carried :],
            choices,
            likeliest,
        )


def arrange(sequence: Sequence, carried: Carried, tree: TokenTree, required: set[int]) -> Arranged:
    """What the target evaluates for the method's `tree` behind what is `carried`.

    Where there are too many rows, the `required` nodes of the tree are left out last. A text
    without a limit of rows has its tree as it is.
    """
    if not sequence.exact_rows:
        return Arranged(tree)
    chain = not tree.skipped and tree.parents == list(range(-1, len(tree) - 1))
    if chain and not carried.tokens and len(tree) <= sequence.exact_rows:
        return Arranged(tree, exact=True)
    combined = TokenTree(sequence.pending)
    last = 0
    for token, source in zip(carried.tokens, carried.sources, strict=True):
        last = combined.add(last, token, source)
    places = _graft(tree, combined, last, sequence.exact_rows, required - tree.skipped)
    return Arranged(combined, len(carried.tokens), places, True)


def _graft(
    tree: TokenTree, combined: TokenTree, root: int, most: int, required: set[int]
) -> list[int]:
    """Add `tree` to `combined`, where its root is `root`, depth first, so that first children make
    the first chain.

    The `required` nodes, closed under parents, come before others among `most` nodes in all.
    Returns every node's place, -1 for what was left out.
    """
    room = max(most - len(combined) - len(required), 0)  # for other nodes
    places, below = [-1] * len(tree), list[list[int]]([] for _ in range(len(tree)))
    for node in range(1, len(tree)):
        below[tree.parents[node]].append(node)
    places[0], waiting = root, below[0][::-1]
    while waiting and len(combined) < most:
        node = waiting.pop()
        if node in tree.skipped:
            continue
        if node not in required:
            if room == 0:
                continue
            room -= 1
        parent = places[tree.parents[node]]
        places[node] = combined.add(
            parent,
            tree.tokens[node],
            tree.sources[node],
            tree.match_lengths[node],
            tree.draft_probabilities[node],
        )
        waiting += below[node][::-1]
    return places
