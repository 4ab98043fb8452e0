"""What a public set is: how its rows become prompts, where its texts stop, how they are scored."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from leapdecode_bench.tasks.public.reading import Found, Row, read_rows


class Hub(NamedTuple):
    """A set's name for the `datasets` library."""

    path: str
    config: str | None = None
    split: str = "test"


@dataclass(frozen=True)
class Item:
    """One row as the model meets it.

    Attributes:
        name: what the row is called in its file, or its number.
        body: the prompt without demonstrations; empty where there are turns.
        turns: of a conversation, what the user says in turn.
        facts: what the scorer must know; a reference text is called "reference".
        group: the part of the set that the row belongs to, empty where the set has none.
    """

    name: str
    body: str = ""
    turns: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    group: str = ""


class PublicSet(ABC):
    """A public set: one file beside this one.

    It needs the names below and `item`; `score` where texts can be scored.

    Attributes:
        name: how `--tasks` asks for it.
        summary: one line on it.
        hub: its name for the `datasets` library; None where it is not there.
        files: where it is looked for in a folder of sets, in this order.
        included: the file, where it comes with this library.
        origin: the file to fetch, and where it is published.
        stop: strings that end a text.
        shots: demonstrations that the papers put before a prompt.
        packages: what its scorer imports beyond the library's own dependencies.
        groups: its parts, where each is a task of its own.
        answers: the format that answers are kept in for a judge elsewhere: fastchat, spec_bench.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    files: ClassVar[tuple[str, ...]]
    origin: ClassVar[str]
    hub: ClassVar[Hub | None] = None
    included: ClassVar[Path | None] = None
    stop: ClassVar[tuple[str, ...]] = ()
    shots: ClassVar[int] = 0
    packages: ClassVar[tuple[str, ...]] = ()
    groups: ClassVar[tuple[str, ...]] = ()
    answers: ClassVar[str] = ""

    def rows(self, path: Path) -> Iterator[Found]:
        """The rows of a file of the set; raises `TaskError` where it cannot be read."""
        return read_rows(path)

    def gathered(self, rows: Iterable[Found]) -> Iterable[Found]:
        """The rows as they are asked; here each by itself."""
        return rows

    @abstractmethod
    def item(self, row: Row) -> Item:
        """A row as a prompt and its facts; raises `RowError` that names the field."""

    def score(self, item: Item, text: str) -> float | None:
        """How right a text (without its prompt) is, 0 to 1; None where no checker exists."""
        return None

    def demonstrations(self, count: int) -> str:
        """`count` worked examples of our own, in the form of the paper."""
        return ""

    def prompt(self, item: Item, shots: int | None = None) -> str:
        """What a model reads: demonstrations (by default as many as the papers show), the body."""
        return self.demonstrations(self.shots if shots is None else shots) + item.body
