"""Spider (Yu et al., 2018): a question on a database, answered by one query."""

import sqlite3
from contextlib import closing
from itertools import islice
from pathlib import Path

from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.reading import Row
from leapdecode_bench.tasks.public.scorers import cut
from leapdecode_bench.tasks.sql.running import Cells, Result, normal, only_reading

STEPS = 20_000_000  # instructions of SQLite's machine that one query may take
MOST_ROWS = 20_000
LONGEST = 4_000  # characters of a query
LARGEST = 1_000_000  # bytes of a value
OPENING = "SELECT"


def opened(path: Path) -> sqlite3.Connection:
    """A database that nothing can be written to; raises `sqlite3.Error`."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    database = sqlite3.connect(uri, uri=True, isolation_level=None)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")  # some files are Latin-1
    return database


def schema(path: Path) -> str:
    """The statements that make the tables, a table a paragraph; raises `sqlite3.Error`."""
    query = "SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL ORDER BY rowid"
    with closing(opened(path)) as database:
        statements = [str(row[0]).strip() for row in database.execute(query)]
    return "\n".join(f"{statement};" for statement in statements)


def result(path: Path, query: str) -> Result:
    """What a query gives; None where it fails, does not only read, or takes too long."""
    if len(query) > LONGEST:
        return None
    try:
        with closing(opened(path)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST)
            database.set_authorizer(only_reading)
            database.set_progress_handler(lambda: 1, STEPS)
            cursor = database.execute(query)
            rows: list[Cells] = list(islice(cursor, MOST_ROWS))
            return rows if cursor.description else None
    except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError):
        return None


def same_result(path: Path, query: str, reference: str) -> bool:
    """Whether a query gives what the reference gives; the order counts where it is asked for."""
    ordered = "ORDER BY" in reference.upper()
    expected, actual = (normal(result(path, sql), ordered) for sql in (reference, query))
    return actual is not None and expected == actual


class Spider(PublicSet):
    """`db_id`, `question`, `query`, beside database/DB/DB.sqlite for every `db_id`.

    Columns must come in the order of the published query.
    """

    name = "spider"
    summary = "questions on databases: execution accuracy"
    files = ("spider/dev.json", "spider.json")
    origin = "dev.json of Spider beside its folder database"
    stop = (";", "\n\n", "\n--")

    def item(self, row: Row) -> Item:
        """The tables as they were made, and the question; the query."""
        question = row.text("question")
        query = row.text("query")
        name = row.text("db_id")
        path = _database(row, name)
        try:
            tables = schema(path)
        except sqlite3.Error as error:
            row.refuse("db_id", f"names {path}, which is no SQLite file: {error}")
        if result(path, query) is None:
            row.refuse("query", f"fails on {path}")
        body = f"{tables}\n\n-- {' '.join(question.split())}\n{OPENING}"
        return Item("", body, facts={"query": query, "database": str(path)})

    def score(self, item: Item, text: str) -> float:
        """1 where the query gives the published query's rows, else 0."""
        query = f"{OPENING} {cut(text, self.stop).strip()}"
        return float(same_result(Path(item.facts["database"]), query, item.facts["query"]))


def _database(row: Row, name: str) -> Path:
    """The file of a database, from the folder of the rows."""
    folder = Path(row.place.rpartition(", ")[0]).parent
    if Path(name).name != name:
        row.refuse("db_id", f"must be the name of a folder, not {name!r}")
    path = folder / "database" / name / f"{name}.sqlite"
    if not path.is_file():
        row.refuse("db_id", f"names a database that is not here: {path}")
    return path
