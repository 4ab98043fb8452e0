"""The n-gram pool: for a key token, the most recent continuations."""

import json
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from leapdecode.errors import OptionError, PoolError

FORMAT = 2
PER_KEY, MOST_TOKENS = 50, 1 << 20
BEFORE = 6  # tokens before an n-gram that are remembered
REASON = 200  # characters of what is said about a file that cannot be read
Origin = tuple[int, tuple[int, ...]]  # match length, the tokens before the key


class NgramPool:
    """Maps a key token to at most `per_key` continuations, most recently used last (lookahead's G).

    Each continuation has a match length, 1 for what comes from a window and else 0 (the lowest
    stays), and where it was found in a text, the tokens before its key there.

    Args:
        per_key: continuations per key token.
        most_tokens: the least recently used n-grams leave once all of them together hold more;
            None: no bound.

    Attributes:
        tokenizer: fingerprint of the tokenizer that the ids belong to, None until one is known.
    """

    def __init__(self, per_key: int = PER_KEY, most_tokens: int | None = MOST_TOKENS) -> None:
        _check_bound("per_key", per_key)
        if most_tokens is not None:
            _check_bound("most_tokens", most_tokens)
        self.per_key, self.most_tokens = per_key, most_tokens
        self.tokenizer: str | None = None
        self.vocabulary: int | None = None  # of the model that the ids were last compared with
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
        found = reversed(self.entries.get(key, OrderedDict()).items())
        if before is None:
            return ((value, match_length) for value, (match_length, _) in found)
        matched = [
            (matching(there, before), value, match_length) for value, (match_length, there) in found
        ]
        matched.sort(key=lambda item: -item[0])
        return (
            (value, 1 + count if count else match_length) for count, value, match_length in matched
        )

    def bind(self, tokenizer: str, vocabulary: int | None = None) -> None:
        """Tie the pool to a tokenizer's fingerprint, and compare its ids with a model's vocabulary.

        Raises `PoolError` where it is another tokenizer's already, or holds an id that the model
        lacks.
        """
        if self.tokenizer not in (None, tokenizer):
            raise PoolError(
                "the pool belongs to another tokenizer, so its ids mean other words; use one pool "
                "for each"
            )
        if vocabulary not in (None, self.vocabulary):  # ids that came since are that model's own
            self._check_ids(vocabulary)
            self.vocabulary = vocabulary
        self.tokenizer = tokenizer

    def _check_ids(self, vocabulary: int) -> None:
        highest = max(
            (token for key, value in self._ngrams() for token in (key, *value)), default=0
        )
        if highest >= vocabulary:
            raise PoolError(
                f"the pool holds token {highest}, but the model's ids go from 0 to "
                f"{vocabulary - 1}; "
                "use the pool with the model that it was made with, or start a new one"
            )

    def _ngrams(self) -> list[tuple[int, tuple[int, ...]]]:
        """All n-grams as they stand now, the least recently used first where that is kept."""
        if self.uses:
            return list(self.uses)
        entries = list(self.entries.items())
        return [(key, value) for key, values in entries for value in list(values)]

    def _document(self) -> dict[str, Any]:
        """What `save` writes; an n-gram that another thread forgets meanwhile is left out."""
        ngrams = []
        for key, value in self._ngrams():
            origin = self.entries.get(key, OrderedDict()).get(value)
            if origin is not None:
                ngrams.append([*origin, key, *value])
        return {"format": FORMAT, "tokenizer": self.tokenizer, "ngrams": ngrams}

    def save(self, path: str | Path) -> None:
        """Write all n-grams as JSON, the least recently used first.

        However many write a file at a time, it is always one whole pool, in the end the last one's.
        """
        if not isinstance(path, str | PathLike) or not Path(path).name:
            raise PoolError(f"path={path!r} names no file; give the file that the pool goes to")
        beside = Path(path).with_name(f".{secrets.token_hex(8)}.part")
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(json.dumps(self._document()) + "\n")
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(
        cls, path: str | Path, per_key: int = PER_KEY, most_tokens: int | None = MOST_TOKENS
    ) -> "NgramPool":
        """The pool in a file; raises `PoolError` where it cannot be read."""
        pool = cls(per_key, most_tokens)
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            pool.tokenizer, ngrams = content["tokenizer"], content["ngrams"]
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r}, not {FORMAT}")
            if not isinstance(pool.tokenizer, str | None):
                raise ValueError("tokenizer is a fingerprint, or null")
            for match_length, before, key, *value in ngrams:
                if not value or not all(
                    type(n) is int and n >= 0 for n in (match_length, *before, key, *value)
                ):
                    raise ValueError(
                        "an n-gram is a match length, the ids before it, and at least two token ids"
                    )
                pool.add(key, tuple(value), match_length, tuple(before))
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            reason = " ".join(str(error).split())[:REASON]
            raise PoolError(f"{path} is no readable pool of n-grams ({reason})") from error
        return pool


def _check_bound(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise OptionError(f"{name}={value!r} must be a whole number of at least 0")


def matching(one: tuple[int, ...], other: list[int]) -> int:
    """How many tokens two texts have in common at their ends."""
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
