"""Sources of guesses side by side: what each knows of a text, as evidence for its next tokens."""

from collections.abc import Callable, Iterable

from leapdecode.methods.evidence import Evidence, match_bucket, place_of
from leapdecode.pools.recycled import RecycledTokens
from leapdecode.pools.suffixes import LONGEST, SuffixIndex
from leapdecode.verify.walk import Verdict

MATCHED = 3  # tokens that suffix matches give at a node
Following = Callable[[list[int], bool], Iterable[tuple[int, int]]]  # (context, at root) -> buckets


class Sources:
    """All sources of one text.

    Args:
        columns: which to ask, names of `evidence.COLUMNS`.
        store: earlier texts.
    """

    def __init__(self, columns: Iterable[str], store: SuffixIndex | None = None) -> None:
        self.text, self.recycled, self.store = SuffixIndex(), RecycledTokens(), store
        known: dict[str, Following] = {
            "suffix": lambda context, _: _matches(self.text, context),
            "pair": lambda context, _: self.recycled.by_pair.get((context[-2], context[-1]), ()),
            "token": lambda context, _: self.recycled.by_token.get(context[-1], ()),
            "last": lambda _, at_root: self.recycled.last if at_root else (),
        }
        if store is not None:
            known["store"] = lambda context, _: _matches(store, context)
        self.asked = [(place_of(name), known[name]) for name in columns if name in known]

    def read(self, tokens: list[int]) -> None:
        """Take in what is new of the text."""
        self.text.add(tokens[len(self.text) :])

    def context(self, tokens: list[int]) -> list[int]:
        """As much of a text as sources look at; at least two tokens."""
        found = tokens[-LONGEST:]
        return found if len(found) > 1 else [-1, *found]

    def following(self, context: list[int], at_root: bool) -> dict[int, Evidence]:
        """Candidates behind `context`, with their evidence."""
        found: dict[int, Evidence] = {}
        for place, following in self.asked:
            for token, bucket in following(context, at_root):
                found.setdefault(token, []).append(place + bucket)
        return found

    def recycle(self, tokens: list[int], parents: list[int], before: int, verdict: Verdict) -> None:
        """Take in what the target found likely at the nodes of a tree, the last accepted one last.

        `tokens` and `parents` are the tree's, `before` is the token before its root.
        """
        if not verdict.likeliest:
            return
        newest = verdict.path[-1]
        for node in [*range(len(verdict.likeliest)), newest]:
            likeliest = verdict.likeliest[node]
            if likeliest:
                parent = parents[node]
                self.recycled.learn(
                    tokens[parent] if parent >= 0 else before, tokens[node], likeliest
                )


def _matches(index: SuffixIndex, context: list[int]) -> list[tuple[int, int]]:
    """(token, bucket) of what followed the longest matches."""
    found = index.following(context, MATCHED)
    return [
        (token, match_bucket(length, number == 0)) for number, (token, length) in enumerate(found)
    ]
