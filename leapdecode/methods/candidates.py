"""The candidates of all sources of one text, joined: by token, with the evidence for it."""

from collections.abc import Iterable

from leapdecode.core import TokenTree
from leapdecode.errors import OptionError
from leapdecode.methods.evidence import Chances, Evidence
from leapdecode.pools.suffixes import LONGEST
from leapdecode.sources.base import Source, SourceContext
from leapdecode.verify.walk import Verdict


class Candidates:
    """What the sources of one text propose.

    Args:
        kinds: which sources take part; equally likely candidates come in their order.
        context: what they may read.
        chances: where the weights of their evidence are.
    """

    def __init__(
        self, kinds: Iterable[type[Source]], context: SourceContext, chances: Chances
    ) -> None:
        self.context = context
        self.chances = chances
        proposing = [kind for kind in kinds if kind.propose is not Source.propose]
        self.sources = [(chances.base_of(kind), kind(context)) for kind in proposing]

    def read(self, tokens: list[int]) -> None:
        """Let every source take in what is new of the text."""
        for _, source in self.sources:
            source.read(tokens)

    def behind(self, tokens: list[int], at_root: bool) -> dict[int, Evidence]:
        """Candidates behind `tokens`, as made by `ending`, with their evidence."""
        candidates: dict[int, Evidence] = {}
        for base, source in self.sources:
            num_buckets = len(source.prior)
            for token, bucket in source.propose(tokens, at_root):
                if not 0 < bucket <= num_buckets:
                    raise OptionError(
                        f"source {source.name!r} proposes a token in bucket {bucket}: its prior "
                        f"has weights for buckets 1 to {num_buckets}"
                    )
                candidates.setdefault(token, []).append(base + bucket)
        return candidates

    def recycle(self, tree: TokenTree, before: int, verdict: Verdict) -> None:
        """Keep what the target found likely at the nodes of a tree; the last accepted node's comes
        last.

        `before` is the token before the tree's root, -1 where there is none.
        """
        nodes = range(len(verdict.likeliest))
        for node in [*nodes, *verdict.path[-1:]] if nodes else ():
            if verdict.likeliest[node]:
                parent = tree.parents[node]
                previous = tree.tokens[parent] if parent >= 0 else before
                self.context.recycled.learn(previous, tree.tokens[node], verdict.likeliest[node])


def ending(tokens: list[int]) -> list[int]:
    """As much of a text as sources look at; at least two tokens."""
    return tokens[-LONGEST:] if len(tokens) > 1 else [-1, *tokens]
