"""The tables that `sql` asks about, and random rows for them; see `schemas.toml`."""

import functools
import random
from collections.abc import Container
from dataclasses import dataclass

from leapdecode_bench.tasks.data import load_toml

Row = tuple[int | str, ...]
Rows = dict[str, list[Row]]
CHILD_ROWS, PARENT_ROWS = (10, 12), 5  # fewest and most of a child, and of a parent


@dataclass(frozen=True)
class Columns:
    """What a column may hold, by its name: numbers in a range, shared words, words of its own."""

    numbers: dict[str, list[int]]
    words: dict[str, list[str]]
    unique: dict[str, list[str]]


@dataclass(frozen=True)
class Table:
    """A table; its first column is `id`, and a child's last one points to the parent's."""

    name: str
    columns: tuple[str, ...]

    @property
    def plural(self) -> str:
        return several(self.name)

    def of_kind(self, kind: Container[str]) -> list[str]:
        """Its columns among one of the tables of `Columns`."""
        return [column for column in self.columns if column in kind]


@dataclass(frozen=True)
class Schema:
    """One table, or a child and the parent it points to."""

    tables: tuple[Table, ...]

    @property
    def text(self) -> str:
        return "; ".join(f"{table.name}({', '.join(table.columns)})" for table in self.tables)


def several(word: str) -> str:
    """The plural of a table's or a column's name."""
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


def schema(text: str) -> Schema:
    """Reads "player name age salary > team name city": the sign points from a child to a parent."""
    names = [part.split() for part in text.split(" > ")]
    link = [f"{names[1][0]}_id"] if len(names) > 1 else []
    tables = [
        Table(name, ("id", *columns, *([] if number else link)))
        for number, (name, *columns) in enumerate(names)
    ]
    return Schema(tuple(tables))


@functools.cache
def columns() -> Columns:
    """What columns may hold, read once."""
    tables = load_toml("sql/schemas.toml")
    return Columns(tables["numbers"], tables["words"], tables["unique"])


@functools.cache
def schemas(split: str) -> tuple[Schema, ...]:
    """The schemas of "train", or those of "held_out" alone."""
    return tuple(schema(text) for text in load_toml("sql/schemas.toml")[split])


def random_rows(rng: random.Random, of: Schema, words: dict[str, list[str]]) -> Rows:
    """Rows for every table.

    Numbers and names are distinct within a column, words come from `words`, a few each.
    """
    rows: Rows = {}
    for number, table in enumerate(of.tables):
        count = PARENT_ROWS if number else rng.randint(*CHILD_ROWS)
        held: list[list[int] | list[str]] = [list(range(1, count + 1))]
        held += [_held(rng, column, count, words) for column in table.columns[1:]]
        rows[table.name] = list(zip(*held, strict=True))
    return rows


def _held(
    rng: random.Random, column: str, count: int, words: dict[str, list[str]]
) -> list[int] | list[str]:
    """What one column of `count` rows holds."""
    if column in columns().numbers:
        low, high = columns().numbers[column]
        return rng.sample(range(low, high + 1), count)
    if column in columns().unique:
        return rng.sample(columns().unique[column], count)
    if column in columns().words:
        return [rng.choice(words[column]) for _ in range(count)]
    # The child's link; the last row of the parent has no child.
    return [rng.randint(1, PARENT_ROWS - 1) for _ in range(count)]
