"""Random parts of questions: tables, columns, values, conditions; every wording goes on record."""

import functools
import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from leapdecode_bench.tasks.data import load_toml
from leapdecode_bench.tasks.english import a_or_an
from leapdecode_bench.tasks.sql.schemas import Rows, Schema, Table, columns


@dataclass(frozen=True)
class Wordings:
    """The tables of `questions.toml`, where each of them is explained."""

    openers: list[str]
    whole: list[str]
    highest: list[str]
    lowest: list[str]
    falling: list[str]
    rising: list[str]
    between: list[str]
    prefix: list[str]
    count: list[str]
    count_distinct: list[str]
    each: list[str]
    grouped: list[str]
    having: list[str]
    largest_group: list[str]
    of_parent: list[str]
    without: list[str]
    number_is: dict[str, list[str]]
    word_is: dict[str, list[str]]
    against_all: dict[str, list[str]]
    aggregates: dict[str, list[str]]
    more: dict[str, str]


@functools.cache
def wordings() -> Wordings:
    """The wordings of questions, read once."""
    return Wordings(**load_toml("sql/questions.toml"))


@dataclass(frozen=True)
class Asked:
    """A question, its query, and the numbers in it as (table, column, value)."""

    question: str
    sql: str
    literals: list[tuple[str, str, int]]


@dataclass
class Pick:
    """Random parts of questions about one schema with given rows; every wording goes on record."""

    rng: random.Random
    schema: Schema
    rows: Rows
    opener: int = -1
    marks: list[str] = field(default_factory=list)
    literals: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def child(self) -> Table:
        """The first table: the child, or the only one."""
        return self.schema.tables[0]

    def form(self, choices: Sequence[str]) -> str:
        """One of `choices`, by its place on record."""
        index = self.rng.randrange(len(choices))
        self.marks.append(str(index))
        return choices[index]

    def table(self) -> Table:
        """The child four times in five: it has more rows."""
        only = len(self.schema.tables) == 1
        return self.child if only or self.rng.random() < 0.8 else self.schema.tables[1]

    def column(self, table: Table, *kinds: Container[str]) -> str:
        """A column of one of the kinds; empty where the table has none."""
        return self.rng.choice([column for kind in kinds for column in table.of_kind(kind)] or [""])

    def value(self, table: Table, column: str) -> int | str:
        """A value that the column holds, but neither the lowest nor the highest number of it."""
        position = table.columns.index(column)
        held = sorted({row[position] for row in self.rows[table.name]}, key=str)
        if column in columns().numbers:
            held = sorted(held, key=int)[1:-1]
        return self.rng.choice(held)

    def ask(self, openers: Sequence[str], sql: str, **parts: str) -> Asked:
        """The question that one of `openers` makes of its parts."""
        self.opener = self.rng.randrange(len(openers))
        return Asked(openers[self.opener].format(**parts), f"{sql};", self.literals)

    def condition(self, table: Table, prefix: str = "", taken: str = "") -> tuple[str, str, str]:
        """A condition on a column other than `taken`: in words, in SQL, and the column."""
        numbers, words = columns().numbers, columns().words
        choices = table.of_kind(numbers) + table.of_kind(words)
        column = self.rng.choice([column for column in choices if column != taken])
        value = self.value(table, column)
        patterns = wordings().number_is if column in numbers else wordings().word_is
        sign = self.form(["=", "=", "!="] if column in words else list(patterns))
        if isinstance(value, int):
            self.literals.append((table.name, column, value))
        in_words = self.form(patterns[sign]).format(a=a_or_an(column), c=column, v=value)
        literal = value if isinstance(value, int) else f"'{value}'"
        return in_words, f"{prefix}{column} {sign} {literal}", column

    def perhaps(self, forms: Sequence[str], table: Table, taken: str) -> tuple[str, str]:
        """A condition in words and as a WHERE part, or two empty texts, by one of `forms`."""
        if not self.form(forms):
            return "", ""
        words, where, _ = self.condition(table, taken=taken)
        return f" {words}", f" WHERE {where}"

    def selected(self, table: Table, count: int = 0) -> list[str]:
        """One to three columns to show, in the schema's order; linking columns are never shown."""
        kinds = (columns().unique, columns().words, columns().numbers)
        selectable = [column for column in table.columns if any(column in kind for kind in kinds)]
        most = count or self.rng.choice([1, 2, 2, 3])
        chosen = self.rng.sample(selectable, min(len(selectable), most))
        return [column for column in selectable if column in chosen]

    def whole(self, table: Table) -> str:
        """All rows of a table: "the shops", "every shop"."""
        return self.form(wordings().whole).format(t=table.name, ts=table.plural)

    def plural(self, table: Table) -> str:
        """All rows of a table, in the plural."""
        return self.form(wordings().whole[:2]).format(ts=table.plural)

    def order(self, column: str) -> tuple[str, str]:
        """A direction of SQL and how to say that rows are in order of a column."""
        down = self.form(["DESC", "ASC"])
        patterns = wordings().falling if down == "DESC" else wordings().rising
        return down, self.form(patterns).format(c=column)

    def aggregate(self) -> tuple[str, str]:
        """A function of SQL and a word for it."""
        function = self.form(list(wordings().aggregates))
        return function, self.form(wordings().aggregates[function])


# One kind of question.
Family = Callable[[Pick], Asked]
