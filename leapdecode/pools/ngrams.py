"""The n-gram pool: for a key token, the most recent continuations."""

from collections import OrderedDict
from collections.abc import Iterator


class NgramPool:
    """Maps a key token to at most `per_key` continuations, most recently used last (lookahead's G).

    Each continuation has a grade, a small number that says where it came from; the lowest stays.
    """

    def __init__(self, per_key: int) -> None:
        self.per_key = per_key
        self.entries: dict[int, OrderedDict[tuple[int, ...], int]] = {}

    def __len__(self) -> int:
        return sum(len(values) for values in self.entries.values())

    def add(self, key: int, value: tuple[int, ...], grade: int = 0) -> None:
        """Remember that `value` followed `key`; the least recently used continuation leaves when there are too many."""
        if self.per_key == 0:
            return
        values = self.entries.setdefault(key, OrderedDict())
        values[value] = min(grade, values.get(value, grade))
        values.move_to_end(value)
        if len(values) > self.per_key:
            values.popitem(last=False)

    def add_text(self, tokens: list[int], size: int) -> None:
        """Remember every `size`-gram of `tokens`: its first token is the key."""
        for start in range(len(tokens) - size + 1):
            self.add(tokens[start], tuple(tokens[start + 1 : start + size]))

    def get(self, key: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """(continuation, grade) pairs of `key`, newest first."""
        return reversed(self.entries.get(key, OrderedDict()).items())
