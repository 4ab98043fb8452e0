"""A schema and a question in words, answered by one query; scored by running it on made-up rows.

Every held-out question pairs a family with opening words that training never pairs; besides, pairs of family and
schema are kept from training, and schemas whose column names do occur in training.
"""

import random
import re
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import islice
from typing import Any, ClassVar

from leapdecode.tasks.base import Example, Split, Task
from leapdecode.tasks.sql_questions import FAMILIES, Asked, Family, Pick, families_for
from leapdecode.tasks.sql_schemas import HELD_OUT, NUMBERS, TRAIN, UNIQUE, WORDS, Rows, Schema, random_rows

STEPS = 200_000  # instructions of SQLite's machine that one query may take
MOST_ROWS = 1_000
LONGEST = 1_000  # characters of a query or of a value
MOST_SELECTS = 6  # in one query: nested ones are unfolded before they run, where the number of steps is not yet counted
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
FUNCTIONS = {
    "count",
    "max",
    "min",
    "avg",
    "sum",
    "total",
    "lower",
    "upper",
    "length",
    "round",
    "abs",
    "like",
    "coalesce",
    "ifnull",
    "substr",
    "substring",
    "instr",
    "glob",
}
DATABASES, TRIES = 3, 40
OTHERWISE = {
    ">": ["<", ">="],
    "<": [">", "<="],
    ">=": [">"],
    "<=": ["<"],
    "=": ["!="],
    "!=": ["="],
    "AND": ["OR"],
    "OR": ["AND"],
    "DESC": ["ASC"],
    "ASC": ["DESC"],
    "MAX": ["MIN"],
    "MIN": ["MAX"],
    "AVG": ["SUM"],
    "SUM": ["AVG"],
    "DISTINCT": [""],
    "NOT": [""],
}
END = re.compile(r";|\n\s*\n|\n(?:Schema|Question|SQL):")  # of a query: what follows is not read
TOKEN = re.compile(r"'[^']*'|[A-Za-z_]+|\d+|[<>!]=|.")


class Sql(Task):
    """Questions about one or two tables, each answered by one SELECT on one line."""

    name: ClassVar[str] = "sql"
    summary: ClassVar[str] = "a schema and a question, answered by a query that is run to be checked"
    kinds: ClassVar[tuple[str, ...]] = ("query",)

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        databases: list[Rows] = []
        while not databases:
            schema = rng.choice(TRAIN + HELD_OUT if split == "held_out" else TRAIN)
            family = rng.choice(families_for(schema))
            words = {column: rng.sample(pool, 5) for column, pool in WORDS.items()}
            pick = Pick(rng, schema, random_rows(rng, schema, words))
            asked = family(pick)
            if new_opening(family, pick.opener) if split == "held_out" else trained(schema, family, pick.opener):
                databases = telling_rows(rng, schema, words, asked)
        skeleton = f"{family.__name__}/{schema.tables[0].name}/{pick.opener}/{'.'.join(pick.marks)}"
        return Example(
            kind,
            f"Schema: {schema.text}\nQuestion: {asked.question}\nSQL:",
            f" {asked.sql}\n",
            {
                "schema": columns_of(schema),
                "databases": databases,
                "sql": asked.sql,
                "skeleton": skeleton,
            },
        )

    def score(self, example: Example, text: str) -> float:
        """1 if the query gives the reference's rows on each database (in its order, if the reference has one)."""
        query = END.split(text.strip(), maxsplit=1)[0].strip()
        facts = example.facts
        return float(all(same_result(facts["schema"], rows, query, facts["sql"]) for rows in facts["databases"]))


def new_opening(family: Family, opener: int) -> bool:
    """Whether training never has this family with these opening words; every held-out question has such a pair."""
    return (FAMILIES.index(family) + opener) % 5 == 0


def trained(schema: Schema, family: Family, opener: int) -> bool:
    """Whether a question may be trained on: neither its schema nor one of its pairs belongs to the held-out split."""
    if schema in HELD_OUT or new_opening(family, opener):
        return False
    return (FAMILIES.index(family) + TRAIN.index(schema)) % 6 != 0


def columns_of(schema: Schema) -> dict[str, list[str]]:
    return {table.name: list(table.columns) for table in schema.tables}


def telling_rows(rng: random.Random, schema: Schema, words: dict[str, list[str]], asked: Asked) -> list[Rows]:
    """Databases that tell the query from its near misses; none if `TRIES` were not enough."""
    for _ in range(TRIES):
        drawn = [random_rows(rng, schema, words) for _ in range(DATABASES)]
        if "JOIN" in asked.sql and "GROUP BY" in asked.sql:
            drawn = [without_childless(schema, rows) for rows in drawn]
        databases = [with_neighbours(rng, schema, rows, asked) for rows in drawn]
        if tells_apart(schema, databases, asked.sql):
            return databases
    return []


def without_childless(schema: Schema, rows: Rows) -> Rows:
    """The rows without parents that no child points to: "the number of players of every team" may or may not count
    those as zero."""
    child, parent = schema.tables
    at = child.columns.index(f"{parent.name}_id")
    pointed = {row[at] for row in rows[child.name]}
    return {**rows, parent.name: [row for row in rows[parent.name] if row[parent.columns.index("id")] in pointed]}


def with_neighbours(rng: random.Random, schema: Schema, rows: Rows, asked: Asked) -> Rows:
    """The rows with every number of the query in them, and the numbers next to it: "at least" is not "more than"."""
    changed = {name: [list(row) for row in table] for name, table in rows.items()}
    columns = columns_of(schema)
    for table, column, value in asked.literals:
        at = columns[table].index(column)
        for row, near in zip(rng.sample(changed[table], 3), (value - 1, value, value + 1), strict=True):
            row[at] = near
    return {name: [tuple(row) for row in table] for name, table in changed.items()}


def tells_apart(schema: Schema, databases: list[Rows], sql: str) -> bool:
    """Whether the rows show a wrong query to be wrong: each near miss gives another result on some database.

    The reference must find something, must not give the same on both databases (or a constant could pass), and must
    not depend on the order of the rows (or a tie would decide).
    """
    columns, ordered = columns_of(schema), is_ordered(sql)

    def found(rows: Rows, queries: list[str]) -> list[list[Cells] | Counter[Cells] | None]:
        return [normal(result, ordered) for result in results(columns, rows, queries)]

    right = [found(rows, [sql])[0] for rows in databases]
    turned = [found({name: table[::-1] for name, table in rows.items()}, [sql])[0] for rows in databases]
    first = right[0] or []
    if not first or any(None in row for row in first) or right[0] == right[1] or right != turned:
        return False
    missed = zip(*(found(rows, near_misses(schema, sql)) for rows in databases), strict=True)
    return all(list(wrong) != right for wrong in missed)


def near_misses(schema: Schema, sql: str) -> list[str]:
    """The query with one token changed: another operator, direction, function, column of the kind, number or word."""
    tokens = TOKEN.findall(sql.removesuffix(";"))
    missed = []
    for at, token in enumerate(tokens):
        others = OTHERWISE.get(token, [])
        if token in (">", "<") and tokens[at + 2].startswith("("):
            others = others[:1]  # no row lies exactly on an average
        elif token.isdigit():
            others = [str(int(token) - 1), str(int(token) + 1)]
        elif token.endswith("%'"):
            others = [f"'{letter}%'" for letter in "ABCDE"]
        elif token.startswith("'"):
            others = next([f"'{word}'" for word in pool] for pool in WORDS.values() if token.strip("'") in pool)
        elif token.islower():
            others = similar_columns(schema, token, tokens[at - 2] if tokens[at - 1] == "." else "")
        missed += ["".join([*tokens[:at], other, *tokens[at + 1 :]]) for other in others if other != token]
    return missed


def similar_columns(schema: Schema, column: str, owner: str) -> list[str]:
    """Columns of the same kind in the same table (`owner`, if it is written before the column)."""
    kinds: list[dict[str, Any]] = [NUMBERS, WORDS | UNIQUE]
    for table in schema.tables:
        if column in table.columns and owner in ("", table.name):
            return [other for kind in kinds if column in kind for other in table.columns if other in kind]
    return []


Cells = tuple[Any, ...]
Result = list[Cells] | None


def results(columns: dict[str, list[str]], rows: Rows, queries: list[str]) -> list[Result]:
    """What each query gives on the rows; None where it fails, does not only read, or takes too long. Never raises."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for table, names in columns.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows[table])
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        database.set_authorizer(only_reading)
        return [read(database, query) for query in queries]


def only_reading(action: int, _: str | None, name: str | None, *others: str | None) -> int:
    """Lets a query select, read, and call the few functions that cannot take much memory."""
    harmless = action in ALLOWED or (action == sqlite3.SQLITE_FUNCTION and str(name).lower() in FUNCTIONS)
    return sqlite3.SQLITE_OK if harmless else sqlite3.SQLITE_DENY


def read(database: sqlite3.Connection, query: str) -> Result:
    """What one query gives; two statements are a Warning of sqlite's, what is no valid text is a ValueError."""
    if len(query) > LONGEST or query.upper().count("SELECT") > MOST_SELECTS:
        return None
    database.set_progress_handler(lambda: 1, STEPS)  # set anew, so that each query has the full number of steps
    try:
        cursor = database.execute(query)
        return list(islice(cursor, MOST_ROWS)) if cursor.description else None
    except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError):
        return None


def is_ordered(sql: str) -> bool:
    """Whether the order of the rows counts; "the 2 runners with the smallest score" asks for none."""
    return "ORDER BY" in sql.upper() and "LIMIT" not in sql.upper()


def normal(result: Result, ordered: bool) -> list[Cells] | Counter[Cells] | None:
    """A result to be compared: as a list if the order counts, else as a multiset; averages without rounding errors."""
    if result is None:
        return None
    rounded = [tuple(round(cell, 6) if isinstance(cell, float) else cell for cell in row) for row in result]
    return rounded if ordered else Counter(rounded)


def same_result(columns: dict[str, list[str]], rows: Rows, query: str, reference: str) -> bool:
    ordered = is_ordered(reference)
    wanted, given = (normal(result, ordered) for result in results(columns, rows, [reference, query]))
    return given is not None and wanted == given
