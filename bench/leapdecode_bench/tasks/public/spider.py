"""Spider (Yu et al., 2018): a question on a database, answered by one query."""

import sqlite3
from pathlib import Path

from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.databases import result, same_result, schema
from leapdecode_bench.tasks.public.rows import Row
from leapdecode_bench.tasks.public.scorers import cut

OPENING = "SELECT"


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
        question, query, name = row.text("question"), row.text("query"), row.text("db_id")
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
