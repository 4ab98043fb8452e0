"""The token tree: what one forward evaluates behind the committed text."""

from collections.abc import Iterable
from typing import Any

from leapdecode.errors import InvalidTree

MAX_NODES = 4096


class TokenTree:
    """Tokens with parents; node 0 (the root) is the pending token.

    Nodes are numbered in the order they were added, so a parent always precedes its children.
    Adding a token that the parent already has as a child returns that child: nodes with equal
    (parent, token) are merged.

    Attributes:
        tokens: token id of every node.
        parents: node id of every node's parent, -1 for the root.
        depths: distance from the root; the node's position is the root's position plus its depth.
        sources: where each node came from ("window", "ngram", "prompt", "draft", ...; "text" for
            the root).
        match_lengths: per node, how many tokens before the guess matched those before its source; 0
            where unknown, and as the pools say.
        draft_probabilities: per node, its probability under the draft; 0.0 where no draft gave it
            one.
        chances: per node, the chance that it is right given its parent, where its source tells;
            else None.
        skipped: nodes that a token budget leaves out of the forward.
        proposals: per parent, where its children were drawn and the rejection verifier must know
            how: (the tokens in the order they were drawn, repeats included; the distribution
            [vocabulary]; whether with replacement).
        ancestors: per node a bit set of itself and its ancestors (bit i = node i): its row of the
            attention mask.
    """

    __slots__ = (
        "ancestors", "chances", "children", "depths", "draft_probabilities", "match_lengths",
        "parents", "proposals", "skipped", "sources", "tokens",
    )  # fmt: skip

    def __init__(self, root: int) -> None:
        self.tokens = [root]
        self.parents = [-1]
        self.depths = [0]
        self.sources = ["text"]
        self.match_lengths = [0]
        self.draft_probabilities = [0.0]
        self.chances: list[float | None] = [None]
        self.skipped: frozenset[int] = frozenset()
        self.proposals: dict[int, tuple[list[int], Any, bool]] = {}
        self.ancestors = [1]
        self.children: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"TokenTree({len(self)} nodes, depth {max(self.depths)})"

    def copy(self) -> "TokenTree":
        """A tree of the same nodes; what is added to one is not in the other."""
        made = TokenTree(self.tokens[0])
        for name in ("tokens", "parents", "depths", "sources", "match_lengths", "ancestors"):
            setattr(made, name, list(getattr(self, name)))
        made.draft_probabilities, made.chances = [*self.draft_probabilities], [*self.chances]
        made.skipped, made.proposals = self.skipped, dict(self.proposals)
        made.children = dict(self.children)
        return made

    def add(
        self,
        parent: int,
        token: int,
        source: str,
        match_length: int = 0,
        draft_probability: float = 0.0,
    ) -> int:
        """Add `token` below `parent` (or find it there) and return its node id."""
        known = self.children.get((parent, token))
        if known is not None:
            return known
        node = len(self.tokens)
        if not 0 <= parent < node:
            raise InvalidTree(
                f"node {node} names parent {parent}; a parent is an earlier node, 0 to {node - 1}"
            )
        self.children[parent, token] = node
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.sources.append(source)
        self.match_lengths.append(match_length)
        self.draft_probabilities.append(draft_probability)
        self.chances.append(None)
        self.ancestors.append(self.ancestors[parent] | 1 << node)
        return node

    def add_chain(
        self, parent: int, tokens: Iterable[int], source: str, match_length: int = 0
    ) -> list[int]:
        """Add `tokens` one below the other, starting below `parent`; returns their node ids."""
        nodes = []
        for token in tokens:
            parent = self.add(parent, token, source, match_length)
            nodes.append(parent)
        return nodes

    def child(self, parent: int, token: int) -> int | None:
        """The child of `parent` that carries `token`, if there is one."""
        return self.children.get((parent, token))

    def matched(self, choices: list[int]) -> int:
        """How many nodes carry what the target chose at their parent, accepted or not (Ouroboros's
        #Match, eq. 10).

        `choices` holds the target's choice at every node, -1 at nodes that were not evaluated.
        """
        nodes = zip(self.parents, self.tokens, choices, strict=True)
        next(nodes)  # the root has no parent
        return sum(chosen >= 0 and choices[parent] == token for parent, token, chosen in nodes)

    def path_tokens(self, node: int) -> list[int]:
        """Tokens from below the root down to `node`; empty for the root."""
        return [self.tokens[place] for place in self.path_to(node)[1:]]

    def path_to(self, node: int) -> list[int]:
        """The nodes from the root down to `node`."""
        path = [node]
        while path[-1] > 0:
            path.append(self.parents[path[-1]])
        return path[::-1]

    def validate(self, pending: int, vocabulary: int) -> None:
        """Raise `InvalidTree` unless the root is `pending` and every token is an id below
        `vocabulary`.
        """
        if self.tokens[0] != pending:
            raise InvalidTree(
                f"the tree's root is token {self.tokens[0]}, but the text ends with token {pending}"
            )
        if len(self.tokens) > MAX_NODES:
            raise InvalidTree(
                f"a tree of {len(self.tokens)} nodes; at most {MAX_NODES} are evaluated in one "
                "forward"
            )
        try:
            low, high = min(self.tokens), max(self.tokens)
            whole = (
                low >= 0 and high < vocabulary and all(type(token) is int for token in self.tokens)
            )
        except TypeError:
            whole = False
        if not whole:
            bad = next(t for t in self.tokens if type(t) is not int or not 0 <= t < vocabulary)
            raise InvalidTree(
                f"a tree holds token {bad!r}; token ids are integers from 0 to {vocabulary - 1}"
            )
