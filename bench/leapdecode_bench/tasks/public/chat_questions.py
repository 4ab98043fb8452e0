"""Everyday questions, written for this library: they come with it."""

from collections.abc import Iterator
from pathlib import Path

from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.reading import Found, Row, text_of


class ChatQuestions(PublicSet):
    """A question a line, each a conversation of one turn."""

    name = "chat_questions"
    summary = "everyday questions, one turn each; they come with this library"
    files = ("chat_questions.txt",)
    origin = "a question a line"
    included = Path(__file__).with_suffix(".txt")

    def rows(self, path: Path) -> Iterator[Found]:
        """The lines of a file."""
        for number, line in enumerate(text_of(path).splitlines(), 1):
            if line.strip():
                yield Row(f"{path}, line {number}", {"question": line.strip()})

    def item(self, row: Row) -> Item:
        """The question as what the user says."""
        return Item("", turns=(row.text("question"),))
