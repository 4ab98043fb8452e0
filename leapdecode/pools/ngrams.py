"""The n-gram pool: for a key token, the most recent continuations."""

from collections import OrderedDict
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from leapdecode.pools.kept import Kept, check_bound, reading

FORMAT = 2
PER_KEY, MOST_TOKENS = 50, 1 << 20
BEFORE = 6  # tokens before an n-gram that are remembered
Origin = tuple[int, tuple[int, ...]]  # match length, the tokens before the key


class NgramPool(Kept):
    """Maps a key token to at most `per_key` continuations, most recently used last (lookahead's G).

    Each continuation has a match length, 1 for what comes from a window and else 0 (the lowest
    stays), and where it was found in a text, the tokens before its key there.

    Args:
        per_key: continuations per key token.
        most_tokens: the least recently used n-grams leave once all of them together hold more;
            None: no bound.
    """

    kind = "pool"

    def __init__(self, per_key: int = PER_KEY, most_tokens: int | None = MOST_TOKENS) -> None:
        super().__init__()
        check_bound("per_key", per_key)
        if most_tokens is not None:
            check_bound("most_tokens", most_tokens)
        self.per_key, self.most_tokens = per_key, most_tokens
        self.entries: dict[int, OrderedDict[tuple[int, ...], Origin]] = {}
        # kept where the tokens are bounded
        self.uses: OrderedDict[tuple[int, tuple[int, ...]], None] = OrderedDict()
        self.tokens = 0

    def __len__(self) -> int:
        return sum(len(values) for values in self.entries.values())

    def add(
        self, key: int, value: tuple[int, ...], match_length: int = 0, before: tuple[int, ...] = ()
    ) -> None:
        """Remember that `value` followed `key`; the least recently used continuation leaves when
        there are too many.
        """
        if self.per_key == 0:
            return
        values = self.entries.setdefault(key, OrderedDict())
        known = value in values
        old = values.get(value, (match_length, before))
        values[value] = min(match_length, old[0]), before or old[1]
        values.move_to_end(value)
        self.tokens += 0 if known else 1 + len(value)
        if len(values) > self.per_key:
            self.remove(key, next(iter(values)))
        if self.most_tokens is not None:
            self.uses[key, value] = None
            self.uses.move_to_end((key, value))
            while self.tokens > self.most_tokens:
                self.remove(*next(iter(self.uses)))

    def remove(self, key: int, value: tuple[int, ...]) -> None:
        """Forget one n-gram, if it is there."""
        values = self.entries.get(key, OrderedDict())
        if value in values:
            del values[value]
            self.tokens -= 1 + len(value)
            self.uses.pop((key, value), None)
            if not values:
                del self.entries[key]

    def add_text(self, tokens: list[int], size: int, new: int | None = None) -> None:
        """Remember `size`-grams of `tokens`: all, or those that end in the last `new` tokens."""
        first = 0 if new is None else max(len(tokens) - size + 1 - new, 0)
        for start in range(first, len(tokens) - size + 1):
            before = tuple(tokens[max(start - BEFORE, 0) : start])
            self.add(tokens[start], tuple(tokens[start + 1 : start + size]), before=before)

    def touch(self, key: int, value: tuple[int, ...]) -> None:
        """Note that an n-gram was of use, if it is still there."""
        values = self.entries.get(key, OrderedDict())
        if value in values:
            values.move_to_end(value)
            if self.most_tokens is not None:
                self.uses.move_to_end((key, value))

    def get(
        self, key: int, before: list[int] | None = None
    ) -> Iterator[tuple[tuple[int, ...], int]]:
        """(continuation, match_length) pairs of `key`, newest first.

        Given the tokens `before` the key, continuations come first that followed more of them.
        Their match length is 1 plus that number, where there are any.
        """
        values = self.entries.get(key, OrderedDict())
        matches = [
            (matching(origin, before or []), value, match_length)
            for value, (match_length, origin) in reversed(values.items())
        ]
        matches.sort(key=lambda match: -match[0])  # stable: the newest stay first
        for count, value, match_length in matches:
            yield value, 1 + count if count else match_length

    def highest(self) -> int:
        """The highest id of all n-grams."""
        return max((token for key, value in self._ngrams() for token in (key, *value)), default=0)

    def _ngrams(self) -> list[tuple[int, tuple[int, ...]]]:
        """All n-grams as they stand now, the least recently used first where that is kept."""
        if self.uses:
            return list(self.uses)
        entries = list(self.entries.items())
        return [(key, value) for key, values in entries for value in list(values)]

    def document(self) -> dict[str, Any]:
        """All n-grams, the least recently used first; one that another thread forgets meanwhile is
        left out.
        """
        ngrams = []
        for key, value in self._ngrams():
            origin = self.entries.get(key, OrderedDict()).get(value)
            if origin is not None:
                ngrams.append([*origin, key, *value])
        return {"format": FORMAT, "tokenizer": self.tokenizer, "ngrams": ngrams}

    @classmethod
    def load(
        cls, path: str | Path, per_key: int = PER_KEY, most_tokens: int | None = MOST_TOKENS
    ) -> "NgramPool":
        """The pool in a file; raises `PoolError` where it cannot be read."""
        pool = cls(per_key, most_tokens)
        with reading(path, "pool of n-grams", FORMAT) as content:
            pool.tokenizer, ngrams = content["tokenizer"], content["ngrams"]
            for match_length, before, key, *value in ngrams:
                if not value or not all(
                    type(n) is int and n >= 0 for n in (match_length, *before, key, *value)
                ):
                    raise ValueError(
                        "an n-gram is a match length, the ids before it, and at least two token ids"
                    )
                pool.add(key, tuple(value), match_length, tuple(before))
        return pool


def matching(first: tuple[int, ...], second: list[int]) -> int:
    """How many tokens two texts have in common at their ends."""
    pairs = zip(reversed(first), reversed(second), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
