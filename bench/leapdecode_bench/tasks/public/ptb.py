"""Penn Treebank in Mikolov's form: sentences to go on with, and the model's perplexity."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Found, Row, line_rows, read_rows
from leapdecode_bench.tasks.public.wikitext import gathered, opening

TOGETHER = 20  # sentences of a text


class Ptb(PublicSet):
    """A sentence a line, rare words as "<unk>" and numbers as "N"; twenty of them are a text."""

    name = "ptb"
    summary = "newspaper sentences to go on with, and the perplexity of whole passages"
    hub = Hub("ptb-text-only/ptb_text_only", None)
    files = ("ptb.txt", "ptb/ptb.test.txt")
    origin = "ptb.test.txt of the Penn Treebank in Mikolov's form"

    def rows(self, path: Path) -> Iterator[Found]:
        """The lines of a text file, or the rows of the hub's files."""
        plain = path.is_file() and path.suffix == ".txt"
        return line_rows(path, "sentence") if plain else read_rows(path)

    def gathered(self, rows: Iterable[Found]) -> Iterator[Found]:
        """Passages of twenty sentences."""
        return gathered(rows, lambda _, lines: lines == TOGETHER, "sentence")

    def item(self, row: Row) -> Item:
        """The first words of a passage; the whole of it."""
        return opening(row.text("text"))
