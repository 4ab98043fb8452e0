"""The questions of `sql` and their queries: each family is a function that asks one kind of question."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from leapdecode.tasks.sql_schemas import NUMBERS, UNIQUE, WORDS, Rows, Schema, Table, several

OPENERS = [
    "Give the {np} of {x}.",
    "List the {np} of {x}.",
    "Show me the {np} of {x}.",
    "Find the {np} of {x}.",
    "What is the {np} of {x}?",
    "For {x}, show the {np}.",
    "I need the {np} of {x}.",
    "Tell me the {np} of {x}.",
    "For {x}, what is the {np}?",
    "Can you give the {np} of {x}?",
    "We want the {np} of {x}.",
]
WHOLE = ["the {ts}", "all {ts}", "every {t}", "each {t}"]
NUMBER_IS = {
    ">": ["with {a} {c} above {v}", "whose {c} is more than {v}", "where the {c} is greater than {v}"],
    "<": ["with {a} {c} below {v}", "whose {c} is less than {v}", "where the {c} is smaller than {v}"],
    ">=": ["with {a} {c} of at least {v}", "whose {c} is {v} or more", "where the {c} is not below {v}"],
    "<=": ["with {a} {c} of at most {v}", "whose {c} is {v} or less", "where the {c} is not above {v}"],
}
WORD_IS = {
    "=": ["with the {c} {v}", "whose {c} is {v}", "where the {c} is {v}", "with {v} as {c}"],
    "!=": ["whose {c} is not {v}", "where the {c} is not {v}", "with {a} {c} other than {v}"],
}
HIGH, LOW = ["highest", "largest", "maximum"], ["lowest", "smallest", "minimum"]
FALLING = ["sorted by {c} from high to low", "in order of falling {c}", "with the highest {c} first"]
RISING = ["sorted by {c} from low to high", "in order of rising {c}", "with the lowest {c} first"]
MORE = {">": "more than {n} {ts}", ">=": "at least {n} {ts}", "<": "fewer than {n} {ts}"}


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

    def form(self, choices: Sequence[str]) -> str:
        """One of `choices`, by its place on record."""
        index = self.rng.randrange(len(choices))
        self.marks.append(str(index))
        return choices[index]

    def table(self) -> Table:
        """The child four times in five: it has more rows."""
        return (
            self.schema.tables[0] if len(self.schema.tables) == 1 or self.rng.random() < 0.8 else self.schema.tables[1]
        )

    def column(self, table: Table, *kinds: dict[str, list[str]] | dict[str, tuple[int, int]]) -> str:
        """A column of one of the kinds; empty where the table has none."""
        return self.rng.choice([column for kind in kinds for column in table.of_kind(kind)] or [""])

    def value(self, table: Table, column: str) -> int | str:
        """A value that the column holds, but neither the lowest nor the highest number of it."""
        held = sorted({row[table.columns.index(column)] for row in self.rows[table.name]}, key=str)
        if column in NUMBERS:
            held = sorted(held, key=int)[1:-1]
        return self.rng.choice(held)

    def ask(self, openers: Sequence[str], sql: str, **parts: str) -> Asked:
        self.opener = self.rng.randrange(len(openers))
        return Asked(openers[self.opener].format(**parts), f"{sql};", self.literals)

    def condition(self, table: Table, prefix: str = "", taken: str = "") -> tuple[str, str, str]:
        """A condition on a column other than `taken`: in words, in SQL, and the column."""
        choices = [column for column in table.of_kind(NUMBERS) + table.of_kind(WORDS) if column != taken]
        column = self.rng.choice(choices)
        value, wordings = self.value(table, column), NUMBER_IS if column in NUMBERS else WORD_IS
        sign = self.form(["=", "=", "!="] if column in WORDS else list(NUMBER_IS))
        if isinstance(value, int):
            self.literals.append((table.name, column, value))
        words = self.form(wordings[sign]).format(a=a_or_an(column), c=column, v=value)
        shown = value if isinstance(value, int) else f"'{value}'"
        return words, f"{prefix}{column} {sign} {shown}", column

    def selected(self, table: Table, count: int = 0) -> list[str]:
        """One to three columns to show, in the schema's order; the linking columns are never shown."""
        columns = [column for column in table.columns if column in UNIQUE or column in WORDS or column in NUMBERS]
        chosen = self.rng.sample(columns, min(len(columns), count or self.rng.choice([1, 2, 2, 3])))
        return [column for column in columns if column in chosen]

    def whole(self, table: Table) -> str:
        return self.form(WHOLE).format(t=table.name, ts=table.plural)


def a_or_an(word: str) -> str:
    return f"an {word}"[:2] if word[0] in "aeiou" else "a"


def spoken(columns: Sequence[str]) -> str:
    return f"{', '.join(columns[:-1])} and {columns[-1]}" if len(columns) > 1 else columns[0]


def one_condition(pick: Pick) -> Asked:
    table = pick.table()
    words, where, _ = pick.condition(table)
    shown = pick.selected(table)
    sql = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {where}"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=f"{pick.whole(table)} {words}")


def two_conditions(pick: Pick) -> Asked:
    table, shown = pick.schema.tables[0], pick.selected(pick.schema.tables[0])
    first, where, taken = pick.condition(table)
    second, also, _ = pick.condition(table, taken=taken)
    join = pick.form(["and", "or"])
    either = "either " if join == "or" and pick.form(["", "either"]) else ""
    sql = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {where} {join.upper()} {also}"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=f"{pick.whole(table)} {either}{first} {join} {second}")


def between(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    column, shown = pick.column(table, NUMBERS), pick.selected(table)
    held = sorted(int(row[table.columns.index(column)]) for row in pick.rows[table.name])
    low, high = held[pick.rng.randint(1, 3)], held[pick.rng.randint(6, len(held) - 2)]
    pick.literals.extend((table.name, column, value) for value in (low, high))
    words = ["with {a} {c} between {v} and {w}", "whose {c} is from {v} to {w}", "where the {c} is between {v} and {w}"]
    told = pick.form(words).format(a=a_or_an(column), c=column, v=low, w=high)
    sql = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {column} BETWEEN {low} AND {high}"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=f"{pick.whole(table)} {told}")


def prefix(pick: Pick) -> Asked:
    table = pick.table()
    column, shown = pick.column(table, UNIQUE), pick.selected(table, 2)
    letter = str(pick.value(table, column))[0]
    words = ["whose {c} starts with {v}", "with a {c} that begins with {v}", "where the {c} starts with the letter {v}"]
    told = pick.form(words).format(c=column, v=letter)
    sql = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {column} LIKE '{letter}%'"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=f"{pick.whole(table)} {told}")


HOW_MANY = ["How many {ts} {k} are there?", "How many {ts} are there {k}?", "How many {ts} {k} do we have?"]
COUNTED = ["Count the {ts} {k}.", "What is the number of {ts} {k}?", "Give the number of {ts} {k}."]


def count(pick: Pick) -> Asked:
    table = pick.table()
    words, where, taken = pick.condition(table)
    if table is pick.schema.tables[0] and pick.form(["one", "two"]) == "two":
        second, also, _ = pick.condition(table, taken=taken)
        words, where = f"{words} and {second}", f"{where} AND {also}"
    return pick.ask(HOW_MANY + COUNTED, f"SELECT COUNT(*) FROM {table.name} WHERE {where}", ts=table.plural, k=words)


def aggregate_words(pick: Pick) -> tuple[str, str]:
    """A function of SQL and a word for it."""
    function = pick.form(["MAX", "MIN", "AVG", "SUM"])
    return function, pick.form(
        {"MAX": HIGH, "MIN": LOW, "AVG": ["average", "mean"], "SUM": ["total", "summed"]}[function]
    )


def aggregate(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    column, (function, word) = pick.column(table, NUMBERS), aggregate_words(pick)
    words, where, _ = pick.condition(table, taken=column)
    sql = f"SELECT {function}({column}) FROM {table.name} WHERE {where}"
    return pick.ask(OPENERS, sql, np=f"{word} {column}", x=f"{pick.form(WHOLE[:2]).format(ts=table.plural)} {words}")


def top(pick: Pick) -> Asked:
    """The first few by a number, some of them under a condition."""
    table = pick.schema.tables[0]
    column, shown = pick.column(table, NUMBERS), pick.selected(table)
    down = pick.form(["DESC", "ASC"])
    best = pick.form((HIGH if down == "DESC" else LOW)[:2])
    number = pick.rng.choice([1, 1, 2, 3, 4])
    words, where = "", ""
    if pick.form(["", "where"]):
        words, where, _ = pick.condition(table, taken=column)
        words, where = f" {words}", f" WHERE {where}"
    sql = f"SELECT {', '.join(shown)} FROM {table.name}{where} ORDER BY {column} {down} LIMIT {number}"
    which = table.name if number == 1 else f"{number} {table.plural}"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=f"the {which}{words} with the {best} {column}")


def ordered(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    column, shown = pick.column(table, NUMBERS), pick.selected(table, 2)
    words, where, _ = pick.condition(table)
    down = pick.form(["DESC", "ASC"])
    order = pick.form(FALLING if down == "DESC" else RISING).format(c=column)
    sql = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {where} ORDER BY {column} {down}"
    return pick.ask(
        OPENERS, sql, np=spoken(shown), x=f"{pick.form(WHOLE[:2]).format(ts=table.plural)} {words}, {order}"
    )


EACH = ["for each {g}", "for every {g}", "per {g}"]
GROUPED = [
    "Give the {np} {e}.",
    "What is the {np} {e}?",
    "Show me the {np} {e}.",
    "I need the {np} {e}.",
    "Find the {np} {e}.",
]


def grouped(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    group = pick.column(table, WORDS)
    value, np = "COUNT(*)", f"number of {table.plural}"
    if pick.form(["count", "number"]) == "number":
        function, word = aggregate_words(pick)
        column = pick.column(table, NUMBERS)
        value, np = f"{function}({column})", f"{word} {column} of {pick.form(WHOLE[:2]).format(ts=table.plural)}"
    words, where = "", ""
    if pick.form(["where", ""]):
        words, where, _ = pick.condition(table, taken=group)
        words, where = f" {words}", f" WHERE {where}"
    sql = f"SELECT {group}, {value} FROM {table.name}{where} GROUP BY {group}"
    return pick.ask(GROUPED, sql, np=np + words, e=pick.form(EACH).format(g=group))


HAVING = [
    "Which {gs} have {m}?",
    "Give the {gs} that have {m}.",
    "List every {g} with {m}.",
    "Find the {gs} with {m}.",
    "For which {gs} are there {m}?",
]


def having(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    group, sign, number = pick.column(table, WORDS), pick.form(list(MORE)), pick.rng.choice([2, 3, 4])
    words, where = "", ""
    if pick.form(["where", ""]):
        words, where, _ = pick.condition(table, taken=group)
        words, where = f" {words}", f" WHERE {where}"
    sql = f"SELECT {group} FROM {table.name}{where} GROUP BY {group} HAVING COUNT(*) {sign} {number}"
    return pick.ask(HAVING, sql, g=group, gs=several(group), m=MORE[sign].format(n=number, ts=table.plural) + words)


MOST = [
    "Which {g} has the {m} {ts}?",
    "Find the {g} with the {m} {ts}.",
    "What is the {g} with the {m} {ts}?",
    "Give the {g} that has the {m} {ts}.",
]


def largest_group(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    group, down = pick.column(table, WORDS), pick.form(["DESC", "DESC", "ASC"])
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT {group} FROM {table.name} WHERE {where} GROUP BY {group} ORDER BY COUNT(*) {down} LIMIT 1"
    return pick.ask(MOST, sql, g=group, m="most" if down == "DESC" else "fewest", ts=f"{table.plural} {words}")


def distinct(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    group = pick.column(table, WORDS)
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT DISTINCT {group} FROM {table.name} WHERE {where}"
    return pick.ask(
        OPENERS, sql, np=f"different {several(group)}", x=f"{pick.form(WHOLE[:2]).format(ts=table.plural)} {words}"
    )


DIFFERENT = [
    "How many different {gs} do the {ts} {k} have?",
    "Count the different {gs} of the {ts} {k}.",
    "How many different {gs} are there for the {ts} {k}?",
    "Give the number of different {gs} of all {ts} {k}.",
]


def count_distinct(pick: Pick) -> Asked:
    table = pick.schema.tables[0]
    group = pick.column(table, WORDS)
    words, where, _ = pick.condition(table, taken=group)
    sql = f"SELECT COUNT(DISTINCT {group}) FROM {table.name} WHERE {where}"
    return pick.ask(DIFFERENT, sql, gs=several(group), ts=table.plural, k=words)


def extreme(pick: Pick) -> Asked:
    """Rows that have the extreme of a group, or that lie on one side of the average."""
    table = pick.schema.tables[0]
    column, shown = pick.column(table, NUMBERS), pick.selected(table)
    against = pick.form(["MAX", "MIN", "AVG"])
    sign = pick.form([">", "<"]) if against == "AVG" else "="
    words = {
        "=": ["whose {c} is the {m} of all", "where the {c} equals the {m} one"],
        ">": ["whose {c} is above the average", "with more than the average {c}"],
        "<": ["whose {c} is below the average", "with less than the average {c}"],
    }
    told = pick.form(words[sign]).format(
        c=column, m=pick.form(HIGH if against == "MAX" else LOW) if sign == "=" else ""
    )
    inner = f"(SELECT {against}({column}) FROM {table.name})"
    sql = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {column} {sign} {inner}"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=f"{pick.form(WHOLE[:2]).format(ts=table.plural)} {told}")


OF_PARENT = [
    "the {ts} of the {ps} {k}",
    "the {ts} of every {p} {k}",
    "all {ts} of the {ps} {k}",
    "the {ts} that belong to the {ps} {k}",
]


def joined_tables(pick: Pick) -> tuple[Table, str, str, str]:
    """The child, the FROM part that joins them, a condition on the parent in words and in SQL."""
    child, parent = pick.schema.tables
    words, where, _ = pick.condition(parent, f"{parent.name}.")
    source = f"FROM {child.name} JOIN {parent.name} ON {child.name}.{parent.name}_id = {parent.name}.id"
    told = pick.form(OF_PARENT).format(ts=child.plural, p=parent.name, ps=parent.plural, k=words)
    return child, source, told, where


def joined(pick: Pick) -> Asked:
    child, source, told, where = joined_tables(pick)
    shown = pick.selected(child, pick.rng.choice([1, 2]))
    sql = f"SELECT {', '.join(f'{child.name}.{column}' for column in shown)} {source} WHERE {where}"
    return pick.ask(OPENERS, sql, np=spoken(shown), x=told)


def joined_top(pick: Pick) -> Asked:
    child, source, told, where = joined_tables(pick)
    shown, column, down = pick.selected(child, 1)[0], pick.column(child, NUMBERS), pick.form(["DESC", "ASC"])
    order = pick.form(FALLING if down == "DESC" else RISING).format(c=column)
    sql = f"SELECT {child.name}.{shown} {source} WHERE {where} ORDER BY {child.name}.{column} {down}"
    return pick.ask(OPENERS, sql, np=shown, x=f"{told}, {order}")


def joined_aggregate(pick: Pick) -> Asked:
    child, source, told, where = joined_tables(pick)
    column, (function, word) = pick.column(child, NUMBERS), aggregate_words(pick)
    sql = f"SELECT {function}({child.name}.{column}) {source} WHERE {where}"
    return pick.ask(OPENERS, sql, np=f"{word} {column}", x=told)


def joined_groups(pick: Pick) -> Asked:
    child, parent = pick.schema.tables
    source = f"FROM {child.name} JOIN {parent.name} ON {child.name}.{parent.name}_id = {parent.name}.id"
    group = pick.column(parent, UNIQUE, WORDS)
    value, np = "COUNT(*)", f"number of {child.plural}"
    if pick.form(["count", "number"]) == "number":
        (function, word), column = aggregate_words(pick), pick.column(child, NUMBERS)
        value, np = f"{function}({child.name}.{column})", f"{word} {column} of the {child.plural}"
    sql = f"SELECT {parent.name}.{group}, {value} {source} GROUP BY {parent.name}.{group}"
    return pick.ask(GROUPED, sql, np=np, e=pick.form(EACH).format(g=f"{parent.name} {group}"))


def joined_having(pick: Pick) -> Asked:
    child, parent = pick.schema.tables
    source = f"FROM {child.name} JOIN {parent.name} ON {child.name}.{parent.name}_id = {parent.name}.id"
    group, sign, number = pick.column(parent, UNIQUE, WORDS), pick.form(list(MORE)), pick.rng.choice([2, 3, 4])
    sql = f"SELECT {parent.name}.{group} {source} GROUP BY {parent.name}.{group} HAVING COUNT(*) {sign} {number}"
    more = MORE[sign].format(n=number, ts=child.plural)
    return pick.ask(HAVING, sql, g=f"{parent.name} {group}", gs=f"{parent.name} {several(group)}", m=more)


def without(pick: Pick) -> Asked:
    """Parents that no child of a certain sort points to."""
    child, parent = pick.schema.tables
    words, where, _ = pick.condition(child)
    shown = pick.selected(parent)
    inner = f"(SELECT {parent.name}_id FROM {child.name} WHERE {where})"
    sql = f"SELECT {', '.join(shown)} FROM {parent.name} WHERE id NOT IN {inner}"
    told = pick.form(["the {ps} without {ts} {k}", "all {ps} that have no {ts} {k}", "every {p} without any {t} {k}"])
    x = told.format(p=parent.name, ps=parent.plural, t=child.name, ts=child.plural, k=words)
    return pick.ask(OPENERS, sql, np=spoken(shown), x=x)


Family = Callable[[Pick], Asked]
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
WITH_WORDS: list[Family] = [grouped, having, largest_group, distinct, count_distinct]  # they need a column of words
TWO_TABLES: list[Family] = [joined, joined_top, joined_aggregate, joined_groups, joined_having, without]
FAMILIES = ONE_TABLE + WITH_WORDS + TWO_TABLES


def families_for(schema: Schema) -> list[Family]:
    """The families that can ask about a schema; joins count twice, as only half of the schemas have two tables."""
    grouping = WITH_WORDS if schema.tables[0].of_kind(WORDS) else []
    return ONE_TABLE + grouping + (TWO_TABLES * 2 if len(schema.tables) > 1 else [])
