"""WikiText-2 (Merity et al., 2017), raw: articles to go on with, and the model's perplexity."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Found, Row, RowError, line_rows, read_rows

_TITLE = re.compile(r"^\s*= [^=].*[^=] = *$")
OPENING = 64  # words of a text that a prompt shows


class WikiText(PublicSet):
    """A line a row, titles as " = Title = "; an article is a text."""

    name = "wikitext"
    summary = "articles to go on with, and the perplexity of whole articles"
    hub = Hub("Salesforce/wikitext", "wikitext-2-raw-v1")
    files = ("wikitext.raw", "wikitext/wiki.test.raw", "wikitext.parquet")
    origin = "wiki.test.raw of wikitext-2-raw"

    def rows(self, path: Path) -> Iterator[Found]:
        """The lines of a raw file, or the rows of the hub's files."""
        plain = path.is_file() and path.suffix in (".raw", ".txt", ".tokens")
        return line_rows(path) if plain else read_rows(path)

    def gathered(self, rows: Iterable[Found]) -> Iterator[Found]:
        """Articles: the lines from one title to the next."""
        return gathered(rows, lambda line, _: _TITLE.match(line) is not None)

    def item(self, row: Row) -> Item:
        """The first words of an article; the whole of it."""
        return opening(row.text("text"))


def gathered(
    rows: Iterable[Found], begins: Callable[[str, int], bool], field: str = "text"
) -> Iterator[Found]:
    """Texts of several lines each; a line that `begins` one comes first in it."""
    place, lines = "", list[str]()
    for row in rows:
        line = row if isinstance(row, RowError) else _line(row, field)
        if isinstance(line, RowError):
            yield line
            continue
        if lines and begins(line, len(lines)):
            yield Row(place, {"text": "\n".join(lines)})
            lines = []
        if line.strip():
            place = place if lines else row.place if isinstance(row, Row) else ""
            lines.append(line.strip())
    if lines:
        yield Row(place, {"text": "\n".join(lines)})


def _line(row: Row, field: str) -> str | RowError:
    text = row.value(field)
    if isinstance(text, str):
        return text
    return RowError(f'{row.place}: "{field}" must be a text')


def opening(text: str) -> Item:
    """A text as a prompt of its first words; what perplexity is measured on is the whole."""
    match = re.match(rf"\s*(?:\S+\s+){{0,{OPENING - 1}}}\S+", text)
    beginning = match.group(0) if match else text
    return Item("", beginning, facts={"text": text})
