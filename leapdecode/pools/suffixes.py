"""What followed when texts last ended like this: suffix matches of any length over known texts."""

from collections.abc import Iterable

from leapdecode.errors import OptionError

# endings of these many tokens lead to their occurrences; longer matches are found by comparing
SIZES = (8, 5, 3, 2, 1)
OCCURRENCES = 8  # kept per ending, the newest
LONGEST = 32  # tokens that are compared
BETWEEN = -1  # stands between two texts; no token id


class SuffixIndex:
    """Texts, one behind the other, and where every short ending of them occurred.

    Unlike a suffix automaton it needs no links: a step looks up five endings, compares backwards at
    most 40 places, and a text grows by five entries per token.

    Args:
        most_tokens: the older half is forgotten once more tokens than this are held; None: no
            bound.
    """

    def __init__(self, most_tokens: int | None = None) -> None:
        if most_tokens is not None and most_tokens < 2:
            raise OptionError(f"most_tokens={most_tokens!r} must be a whole number of at least 2")
        self.most_tokens = most_tokens
        self.tokens: list[int] = []
        self.places: list[dict[tuple[int, ...], list[int]]] = [{} for _ in SIZES]

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, tokens: Iterable[int]) -> None:
        """Continue the last text by `tokens`."""
        for token in tokens:
            self._add(token)
        if self.most_tokens is not None and len(self.tokens) > self.most_tokens:
            kept = self.tokens[len(self.tokens) - self.most_tokens // 2 :]
            self.tokens, self.places = [], [{} for _ in SIZES]
            for token in kept:
                self._add(token)

    def end_text(self) -> None:
        """What is added next is another text."""
        self.tokens.append(BETWEEN)

    def _add(self, token: int) -> None:
        held = self.tokens
        end = len(held)
        for size, places in zip(SIZES, self.places, strict=True):
            if size <= end:
                occurred = places.setdefault(tuple(held[end - size :]), [])
                occurred.append(end)
                if len(occurred) > OCCURRENCES:
                    del occurred[0]
        held.append(token)

    def following(self, context: list[int], most: int) -> list[tuple[int, int]]:
        """At most `most` (token, match length) that followed what `context` ends with.

        The longest match comes first, the newest among equals. Shorter matches count only where the
        longer ones give fewer than `most` tokens.
        """
        lengths: dict[int, int] = {}  # of the longest match before each token
        for size, places in zip(SIZES, self.places, strict=True):
            if size > len(context):
                continue
            for place in reversed(places.get(tuple(context[-size:]), ())):
                token = self.tokens[place]
                length = self._matching(context, place, size)
                if token != BETWEEN and length > lengths.get(token, 0):
                    lengths[token] = length
            if len(lengths) >= most:
                break
        return sorted(lengths.items(), key=lambda item: -item[1])[:most]

    def _matching(self, context: list[int], place: int, length: int) -> int:
        """How many tokens before `place` equal the context's last ones, given that `length` do."""
        held, longest = self.tokens, min(LONGEST, len(context), place)
        while length < longest and held[place - length - 1] == context[-length - 1]:
            length += 1
        return length
