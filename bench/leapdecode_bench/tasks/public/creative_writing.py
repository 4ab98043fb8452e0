"""Creative Writing (Yao et al., 2023; SEED, appendix D): paragraphs with given end sentences."""

import re
from collections.abc import Iterator
from pathlib import Path

from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.passage import Passage, passage_prompt
from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.reading import Found, Row, line_rows, read_rows

COUNT = 4
_BETWEEN = re.compile(r"""(?<=[.!?])["'\u201d\u2019]?\s+(?=["'\u201c\u2018]?[A-Z0-9])""")


class CreativeWriting(PublicSet):
    """A line holds four sentences that have nothing to do with each other."""

    name = "creative_writing"
    summary = "a plan and four paragraphs that end as asked"
    files = ("creative_writing.txt", "creative_writing/data_100_random_text.txt")
    origin = "data_100_random_text.txt of princeton-nlp/tree-of-thought-llm"
    stop = ("\nWrite a coherent passage", "\nAnalyze the passage:")

    def rows(self, path: Path) -> Iterator[Found]:
        """A line of the text file a row."""
        return line_rows(path) if path.suffix == ".txt" else read_rows(path)

    def item(self, row: Row) -> Item:
        """The published prompt; the four sentences."""
        ends = [
            sentence.strip()
            for sentence in _BETWEEN.split(row.text("text").strip())
            if sentence.strip()
        ]
        if len(ends) != COUNT:
            row.refuse("text", f"must hold {COUNT} sentences, not {len(ends)}")
        return Item("", passage_prompt(ends), facts={"ends": ends, "question": "\n".join(ends)})

    def score(self, item: Item, text: str) -> float | None:
        """1 where all paragraphs end as given, else 0."""
        return Passage().score(Example("passage", "", "", dict(item.facts)), text)
