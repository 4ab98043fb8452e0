"""Rows that tell a query from its near misses, so that a wrong query gives a wrong result."""

import random
import re
from collections import Counter

from leapdecode_bench.tasks.sql.questions import SqlQuestion
from leapdecode_bench.tasks.sql.running import Cells, is_ordered, normal, results
from leapdecode_bench.tasks.sql.schemas import Rows, Schema, columns, random_rows

DATABASES, TRIES = 3, 40  # of a question, and how often its rows are drawn anew
# What a token is mistaken for.
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
TOKEN = re.compile(r"'[^']*'|[A-Za-z_]+|\d+|[<>!]=|.")


def columns_of(schema: Schema) -> dict[str, list[str]]:
    """The names of every table's columns."""
    return {table.name: list(table.columns) for table in schema.tables}


def telling_rows(
    rng: random.Random, schema: Schema, words: dict[str, list[str]], question: SqlQuestion
) -> list[Rows]:
    """Databases that tell the query from its near misses; none if `TRIES` were not enough."""
    for _ in range(TRIES):
        drawn = [random_rows(rng, schema, words) for _ in range(DATABASES)]
        if "JOIN" in question.sql and "GROUP BY" in question.sql:
            drawn = [without_childless(schema, rows) for rows in drawn]
        databases = [with_neighbours(rng, schema, rows, question) for rows in drawn]
        if tells_apart(schema, databases, question.sql):
            return databases
    return []


def without_childless(schema: Schema, rows: Rows) -> Rows:
    """The rows without parents that no child points to.

    "The number of players of every team" may or may not count those as zero.
    """
    child, parent = schema.tables
    link = child.columns.index(f"{parent.name}_id")
    id_column = parent.columns.index("id")
    pointed = {row[link] for row in rows[child.name]}
    return {**rows, parent.name: [row for row in rows[parent.name] if row[id_column] in pointed]}


def with_neighbours(rng: random.Random, schema: Schema, rows: Rows, question: SqlQuestion) -> Rows:
    """The rows with every number of the query in them, and the numbers next to it.

    They tell "at least" from "more than".
    """
    changed = {name: [list(row) for row in table] for name, table in rows.items()}
    names = columns_of(schema)
    for table, column, value in question.literals:
        position = names[table].index(column)
        near = (value - 1, value, value + 1)
        for row, number in zip(rng.sample(changed[table], len(near)), near, strict=True):
            row[position] = number
    return {name: [tuple(row) for row in table] for name, table in changed.items()}


def tells_apart(schema: Schema, databases: list[Rows], sql: str) -> bool:
    """Whether the rows show a wrong query to be wrong.

    Each near miss gives another result on some database. The reference must find something, must
    not give the same on the first two databases (or a constant could pass), and must not depend on
    the order of the rows (or a tie would decide).
    """
    names, ordered = columns_of(schema), is_ordered(sql)

    def found(rows: Rows, queries: list[str]) -> list[list[Cells] | Counter[Cells] | None]:
        return [normal(result, ordered) for result in results(names, rows, queries)]

    right = [found(rows, [sql])[0] for rows in databases]
    turned = [found(backwards(rows), [sql])[0] for rows in databases]
    if not right[0] or any(None in row for row in right[0]):
        return False
    if right[0] == right[1] or right != turned:
        return False
    missed = zip(*(found(rows, near_misses(schema, sql)) for rows in databases), strict=True)
    return all(list(wrong) != right for wrong in missed)


def backwards(rows: Rows) -> Rows:
    """The rows of every table from the last to the first."""
    return {name: table[::-1] for name, table in rows.items()}


def near_misses(schema: Schema, sql: str) -> list[str]:
    """The query with one token changed.

    Another operator, direction, function, column of the kind, number or word.
    """
    tokens = TOKEN.findall(sql.removesuffix(";"))
    return [
        "".join([*tokens[:position], replacement, *tokens[position + 1 :]])
        for position, token in enumerate(tokens)
        for replacement in others_than(schema, tokens, position)
        if replacement != token
    ]


def others_than(schema: Schema, tokens: list[str], position: int) -> list[str]:
    """What may stand in place of a query's token `at`."""
    token = tokens[position]
    if token in (">", "<") and tokens[position + 2].startswith("("):
        return OTHERWISE[token][:1]  # no row lies exactly on an average
    if token in OTHERWISE:
        return OTHERWISE[token]
    if token.isdigit():
        return [str(int(token) - 1), str(int(token) + 1)]
    if token.endswith("%'"):
        return [f"'{letter}%'" for letter in "ABCDE"]
    if token.startswith("'"):
        pools = columns().words.values()
        return next([f"'{word}'" for word in pool] for pool in pools if token.strip("'") in pool)
    if token.islower():
        return similar_columns(
            schema, token, tokens[position - 2] if tokens[position - 1] == "." else ""
        )
    return []


def similar_columns(schema: Schema, column: str, owner: str) -> list[str]:
    """Columns of the same kind in the same table (`owner`, if it is written before the column)."""
    kinds = [{*columns().numbers}, {*columns().words, *columns().unique}]
    for table in schema.tables:
        if column in table.columns and owner in ("", table.name):
            return [similar for kind in kinds if column in kind for similar in table.of_kind(kind)]
    return []
