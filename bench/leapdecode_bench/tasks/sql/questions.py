"""Questions about one or two tables: their random parts, every kind of question, and which kinds
training has. Every wording goes on record.
"""

import functools
import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from leapdecode_bench.tasks.data import load_toml
from leapdecode_bench.tasks.english import a_or_an, listed
from leapdecode_bench.tasks.sql.schemas import Rows, Schema, Table, columns, schemas, several


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
    group_sizes: dict[str, str]


@functools.cache
def wordings() -> Wordings:
    """The wordings of questions, read once."""
    return Wordings(**load_toml("sql/questions.toml"))


@dataclass(frozen=True)
class SqlQuestion:
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
        """One of `choices`, whose number goes on record."""
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
        values = sorted({row[position] for row in self.rows[table.name]}, key=str)
        if column in columns().numbers:
            values = sorted(values, key=int)[1:-1]
        return self.rng.choice(values)

    def ask(self, openers: Sequence[str], sql: str, **parts: str) -> SqlQuestion:
        """The question that one of `openers` makes of its parts."""
        self.opener = self.rng.randrange(len(openers))
        return SqlQuestion(openers[self.opener].format(**parts), f"{sql};", self.literals)

    def condition(self, table: Table, prefix: str = "", taken: str = "") -> tuple[str, str, str]:
        """A condition on a column other than `taken`: in words, in SQL, and the column."""
        numbers = columns().numbers
        words = columns().words
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
        wanted = count or self.rng.choice([1, 2, 2, 3])
        sampled = self.rng.sample(selectable, min(len(selectable), wanted))
        return [column for column in selectable if column in sampled]

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
Family = Callable[[Pick], SqlQuestion]


def select(selected: Sequence[str], table: Table) -> str:
    """The head of a query that shows some columns of one table."""
    return f"SELECT {', '.join(selected)} FROM {table.name}"


def one_condition(pick: Pick) -> SqlQuestion:
    """The rows that meet a condition."""
    table = pick.table()
    words, where, _ = pick.condition(table)
    selected = pick.selected(table)
    sql = f"{select(selected, table)} WHERE {where}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=f"{pick.whole(table)} {words}")


def two_conditions(pick: Pick) -> SqlQuestion:
    """The rows that meet both of two conditions, or either."""
    table = pick.child
    selected = pick.selected(pick.child)
    first, where, taken = pick.condition(table)
    second, also, _ = pick.condition(table, taken=taken)
    join = pick.form(["and", "or"])
    either = "either " if join == "or" and pick.form(["", "either"]) else ""
    sql = f"{select(selected, table)} WHERE {where} {join.upper()} {also}"
    x = f"{pick.whole(table)} {either}{first} {join} {second}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def between(pick: Pick) -> SqlQuestion:
    """The rows whose number lies between two others."""
    table = pick.child
    column = pick.column(table, columns().numbers)
    selected = pick.selected(table)
    values = sorted(int(row[table.columns.index(column)]) for row in pick.rows[table.name])
    low = values[pick.rng.randint(1, 3)]
    high = values[pick.rng.randint(6, len(values) - 2)]
    pick.literals.extend((table.name, column, value) for value in (low, high))
    condition = pick.form(wordings().between).format(a=a_or_an(column), c=column, v=low, w=high)
    where = f"{column} BETWEEN {low} AND {high}"
    sql = f"{select(selected, table)} WHERE {where}"
    x = f"{pick.whole(table)} {condition}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def prefix(pick: Pick) -> SqlQuestion:
    """The rows whose name starts with a letter."""
    table = pick.table()
    column = pick.column(table, columns().unique)
    selected = pick.selected(table, 2)
    letter = str(pick.value(table, column))[0]
    condition = pick.form(wordings().prefix).format(c=column, v=letter)
    sql = f"{select(selected, table)} WHERE {column} LIKE '{letter}%'"
    x = f"{pick.whole(table)} {condition}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def count(pick: Pick) -> SqlQuestion:
    """The number of rows that meet one condition or two."""
    table = pick.table()
    words, where, taken = pick.condition(table)
    if table is pick.child and pick.form(["one", "two"]) == "two":
        second, also, _ = pick.condition(table, taken=taken)
        words = f"{words} and {second}"
        where = f"{where} AND {also}"
    sql = f"SELECT COUNT(*) FROM {table.name} WHERE {where}"
    return pick.ask(wordings().count, sql, ts=table.plural, k=words)


def aggregate(pick: Pick) -> SqlQuestion:
    """The largest, smallest, mean or total number under a condition."""
    table = pick.child
    column = pick.column(table, columns().numbers)
    function, word = pick.aggregate()
    words, where, _ = pick.condition(table, taken=column)
    sql = f"SELECT {function}({column}) FROM {table.name} WHERE {where}"
    x = f"{pick.plural(table)} {words}"
    return pick.ask(wordings().openers, sql, np=f"{word} {column}", x=x)


def top(pick: Pick) -> SqlQuestion:
    """The first few by a number, some of them under a condition."""
    table = pick.child
    column = pick.column(table, columns().numbers)
    selected = pick.selected(table)
    down = pick.form(["DESC", "ASC"])
    best = pick.form((wordings().highest if down == "DESC" else wordings().lowest)[:2])
    number = pick.rng.choice([1, 1, 2, 3, 4])
    words, where = pick.perhaps(["", "where"], table, column)
    sql = f"{select(selected, table)}{where} ORDER BY {column} {down} LIMIT {number}"
    noun = table.name if number == 1 else f"{number} {table.plural}"
    x = f"the {noun}{words} with the {best} {column}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def ordered(pick: Pick) -> SqlQuestion:
    """The rows that meet a condition, in order of a number."""
    table = pick.child
    column = pick.column(table, columns().numbers)
    selected = pick.selected(table, 2)
    words, where, _ = pick.condition(table)
    down, order = pick.order(column)
    sql = f"{select(selected, table)} WHERE {where} ORDER BY {column} {down}"
    x = f"{pick.plural(table)} {words}, {order}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


def extreme(pick: Pick) -> SqlQuestion:
    """Rows that have the extreme of a group, or that lie on one side of the average."""
    table = pick.child
    column = pick.column(table, columns().numbers)
    selected = pick.selected(table)
    against = pick.form(["MAX", "MIN", "AVG"])
    sign = pick.form([">", "<"]) if against == "AVG" else "="
    pattern = pick.form(wordings().against_all[sign])
    most = ""
    if sign == "=":
        most = pick.form(wordings().highest if against == "MAX" else wordings().lowest)
    inner = f"(SELECT {against}({column}) FROM {table.name})"
    sql = f"{select(selected, table)} WHERE {column} {sign} {inner}"
    x = f"{pick.plural(table)} {pattern.format(c=column, m=most)}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


ONE_TABLE: list[Family] = [
    one_condition,
    two_conditions,
    between,
    prefix,
    count,
    aggregate,
    top,
    ordered,
    extreme,
]


def grouped(pick: Pick) -> SqlQuestion:
    """A number for every group: how many rows, or an aggregate of theirs."""
    table = pick.child
    group = pick.column(table, columns().words)
    value = "COUNT(*)"
    np = f"number of {table.plural}"
    if pick.form(["count", "number"]) == "number":
        function, word = pick.aggregate()
        column = pick.column(table, columns().numbers)
        value = f"{function}({column})"
        np = f"{word} {column} of {pick.plural(table)}"
    words, where = pick.perhaps(["where", ""], table, group)
    sql = f"SELECT {group}, {value} FROM {table.name}{where} GROUP BY {group}"
    each = pick.form(wordings().each).format(g=group)
    return pick.ask(wordings().grouped, sql, np=np + words, e=each)


def having(pick: Pick) -> SqlQuestion:
    """The groups of a certain size."""
    table = pick.child
    group = pick.column(table, columns().words)
    sign = pick.form(list(wordings().group_sizes))
    number = pick.rng.choice([2, 3, 4])
    words, where = pick.perhaps(["where", ""], table, group)
    rows = f"SELECT {group} FROM {table.name}{where}"
    sql = f"{rows} GROUP BY {group} HAVING COUNT(*) {sign} {number}"
    size = wordings().group_sizes[sign].format(n=number, ts=table.plural)
    return pick.ask(wordings().having, sql, g=group, gs=several(group), m=size + words)


def largest_group(pick: Pick) -> SqlQuestion:
    """The group with the most rows, or with the fewest."""
    table = pick.child
    group = pick.column(table, columns().words)
    down = pick.form(["DESC", "DESC", "ASC"])
    words, where, _ = pick.condition(table, taken=group)
    rows = f"SELECT {group} FROM {table.name} WHERE {where}"
    sql = f"{rows} GROUP BY {group} ORDER BY COUNT(*) {down} LIMIT 1"
    most = "most" if down == "DESC" else "fewest"
    return pick.ask(wordings().largest_group, sql, g=group, m=most, ts=f"{table.plural} {words}")


def distinct(pick: Pick) -> SqlQuestion:
    """The different words in a column under a condition."""
    table = pick.child
    group = pick.column(table, columns().words)
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT DISTINCT {group} FROM {table.name} WHERE {where}"
    x = f"{pick.plural(table)} {words}"
    return pick.ask(wordings().openers, sql, np=f"different {several(group)}", x=x)


def count_distinct(pick: Pick) -> SqlQuestion:
    """How many different words a column has under a condition."""
    table = pick.child
    group = pick.column(table, columns().words)
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT COUNT(DISTINCT {group}) FROM {table.name} WHERE {where}"
    return pick.ask(wordings().count_distinct, sql, gs=several(group), ts=table.plural, k=words)


# They need a column of words.
WITH_WORDS: list[Family] = [grouped, having, largest_group, distinct, count_distinct]


def source(child: Table, parent: Table) -> str:
    """The FROM part that joins a child to its parent."""
    link = f"{child.name}.{parent.name}_id = {parent.name}.id"
    return f"FROM {child.name} JOIN {parent.name} ON {link}"


def joined_tables(pick: Pick) -> tuple[Table, str, str]:
    """The child, its rows by a condition on the parent in words, and the FROM and WHERE parts."""
    child, parent = pick.schema.tables
    words, where, _ = pick.condition(parent, f"{parent.name}.")
    fields = {"ts": child.plural, "p": parent.name, "ps": parent.plural, "k": words}
    phrase = pick.form(wordings().of_parent).format(**fields)
    return child, phrase, f"{source(child, parent)} WHERE {where}"


def joined(pick: Pick) -> SqlQuestion:
    """The child's rows."""
    child, phrase, rows = joined_tables(pick)
    selected = pick.selected(child, pick.rng.choice([1, 2]))
    sql = f"SELECT {', '.join(f'{child.name}.{column}' for column in selected)} {rows}"
    return pick.ask(wordings().openers, sql, np=listed(selected), x=phrase)


def joined_top(pick: Pick) -> SqlQuestion:
    """The child's rows in order of a number."""
    child, phrase, rows = joined_tables(pick)
    selected = pick.selected(child, 1)[0]
    column = pick.column(child, columns().numbers)
    down, order = pick.order(column)
    sql = f"SELECT {child.name}.{selected} {rows} ORDER BY {child.name}.{column} {down}"
    return pick.ask(wordings().openers, sql, np=selected, x=f"{phrase}, {order}")


def joined_aggregate(pick: Pick) -> SqlQuestion:
    """One number for all of the child's rows."""
    child, phrase, rows = joined_tables(pick)
    column = pick.column(child, columns().numbers)
    function, word = pick.aggregate()
    sql = f"SELECT {function}({child.name}.{column}) {rows}"
    return pick.ask(wordings().openers, sql, np=f"{word} {column}", x=phrase)


def joined_groups(pick: Pick) -> SqlQuestion:
    """A number for every parent: how many children, or an aggregate of theirs."""
    child, parent = pick.schema.tables
    group = pick.column(parent, columns().unique, columns().words)
    value = "COUNT(*)"
    np = f"number of {child.plural}"
    if pick.form(["count", "number"]) == "number":
        function, word = pick.aggregate()
        column = pick.column(child, columns().numbers)
        value = f"{function}({child.name}.{column})"
        np = f"{word} {column} of the {child.plural}"
    by = f"{parent.name}.{group}"
    sql = f"SELECT {by}, {value} {source(child, parent)} GROUP BY {by}"
    each = pick.form(wordings().each).format(g=f"{parent.name} {group}")
    return pick.ask(wordings().grouped, sql, np=np, e=each)


def joined_having(pick: Pick) -> SqlQuestion:
    """The parents with a certain number of children."""
    child, parent = pick.schema.tables
    group = pick.column(parent, columns().unique, columns().words)
    sign = pick.form(list(wordings().group_sizes))
    number = pick.rng.choice([2, 3, 4])
    by = f"{parent.name}.{group}"
    sql = f"SELECT {by} {source(child, parent)} GROUP BY {by} HAVING COUNT(*) {sign} {number}"
    size = wordings().group_sizes[sign].format(n=number, ts=child.plural)
    group_name = f"{parent.name} {group}"
    several_of = f"{parent.name} {several(group)}"
    return pick.ask(wordings().having, sql, g=group_name, gs=several_of, m=size)


def without(pick: Pick) -> SqlQuestion:
    """Parents that no child of a certain sort points to."""
    child, parent = pick.schema.tables
    words, where, _ = pick.condition(child)
    selected = pick.selected(parent)
    inner = f"(SELECT {parent.name}_id FROM {child.name} WHERE {where})"
    sql = f"{select(selected, parent)} WHERE id NOT IN {inner}"
    fields = {"p": parent.name, "ps": parent.plural, "t": child.name, "ts": child.plural}
    x = pick.form(wordings().without).format(**fields, k=words)
    return pick.ask(wordings().openers, sql, np=listed(selected), x=x)


TWO_TABLES: list[Family] = [
    joined,
    joined_top,
    joined_aggregate,
    joined_groups,
    joined_having,
    without,
]

FAMILIES = ONE_TABLE + WITH_WORDS + TWO_TABLES


def families_for(schema: Schema) -> list[Family]:
    """The families that can ask about a schema.

    Joins count twice, as only half of the schemas have two tables.
    """
    grouping = WITH_WORDS if schema.tables[0].of_kind(columns().words) else []
    return ONE_TABLE + grouping + (TWO_TABLES * 2 if len(schema.tables) > 1 else [])


def new_opening(family: Family, opener: int) -> bool:
    """Whether training never has this family with these opening words.

    Every held-out question has such a pair.
    """
    return (FAMILIES.index(family) + opener) % 5 == 0


def trained(schema: Schema, family: Family, opener: int) -> bool:
    """Whether a question may be trained on.

    Neither its schema nor one of its pairs belongs to the held-out split.
    """
    if schema in schemas("held_out") or new_opening(family, opener):
        return False
    return (FAMILIES.index(family) + schemas("train").index(schema)) % 6 != 0
