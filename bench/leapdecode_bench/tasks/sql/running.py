"""Runs queries on made-up rows, with little that they may do, and compares what they give."""

import sqlite3
from collections import Counter
from contextlib import closing
from itertools import islice
from typing import Any

from leapdecode_bench.tasks.sql.schemas import Rows

STEPS = 200_000  # instructions of SQLite's machine that one query may take
MOST_ROWS = 1_000
LONGEST = 1_000  # characters of a query or of a value
# In one query: nested ones are unfolded before they run, where steps are not yet counted.
MOST_SELECTS = 6
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
FUNCTIONS = frozenset((
    "abs", "avg", "coalesce", "count", "glob", "ifnull", "instr", "length", "like", "lower", "max",
    "min", "round", "substr", "substring", "sum", "total", "upper",
))  # fmt: skip
Cells = tuple[Any, ...]
Result = list[Cells] | None


def results(columns: dict[str, list[str]], rows: Rows, queries: list[str]) -> list[Result]:
    """What each query gives on the rows. Never raises.

    None where it fails, does not only read, or takes too long.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        for table, names in columns.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(names)})")
            places = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO {table} VALUES ({places})", rows[table])
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        database.set_authorizer(only_reading)
        return [read(database, query) for query in queries]


def only_reading(action: int, _: str | None, name: str | None, *others: str | None) -> int:
    """Lets a query select, read, and call the few functions that cannot take much memory."""
    function = str(name).lower() if action == sqlite3.SQLITE_FUNCTION else ""
    harmless = action in ALLOWED or function in FUNCTIONS
    return sqlite3.SQLITE_OK if harmless else sqlite3.SQLITE_DENY


def read(database: sqlite3.Connection, query: str) -> Result:
    """What one query gives.

    Two statements are a Warning of sqlite's, what is no valid text is a ValueError.
    """
    if len(query) > LONGEST or query.upper().count("SELECT") > MOST_SELECTS:
        return None
    # Set anew, so that each query has the full number of steps.
    database.set_progress_handler(lambda: 1, STEPS)
    try:
        cursor = database.execute(query)
        return list(islice(cursor, MOST_ROWS)) if cursor.description else None
    except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError):
        return None


def is_ordered(sql: str) -> bool:
    """Whether the order of the rows counts; "the 2 runners with the smallest score"
    asks for none.
    """
    return "ORDER BY" in sql.upper() and "LIMIT" not in sql.upper()


def normal(result: Result, ordered: bool) -> list[Cells] | Counter[Cells] | None:
    """A result to be compared: as a list if the order counts, else as a multiset.

    Averages are without rounding errors.
    """
    if result is None:
        return None
    rounded = [
        tuple(round(cell, 6) if isinstance(cell, float) else cell for cell in row) for row in result
    ]
    return rounded if ordered else Counter(rounded)


def same_result(columns: dict[str, list[str]], rows: Rows, query: str, reference: str) -> bool:
    """Whether a query gives on the rows what the reference gives."""
    ordered = is_ordered(reference)
    both = results(columns, rows, [reference, query])
    expected, actual = (normal(result, ordered) for result in both)
    return actual is not None and expected == actual
