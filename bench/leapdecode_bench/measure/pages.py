"""A page as a list of blocks, written as Markdown or as one HTML file that needs nothing beside.

Jinja is imported where a page is written, as matplotlib is.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.plain import clean, one_line

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent  # of the template and the styles


@dataclass(frozen=True)
class Heading:
    text: str


@dataclass(frozen=True)
class Words:
    """A paragraph; a `strong` one is set off, as a warning that must be seen."""

    text: str
    strong: bool = False


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of texts under a head; the first `names` columns are names, the others numbers.

    Rows with the same first name belong together.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    title: str = ""


@dataclass(frozen=True)
class States:
    """Lines of texts, each with whether it is right; a wrong one is marked."""

    lines: Sequence[Sequence[tuple[str, bool]]]


@dataclass(frozen=True)
class Picture:
    """A plot: for HTML an SVG element, for Markdown the path of an image."""

    svg: str
    path: str
    caption: str


# of a table: what stands above each column, and how a row of the document is shown in it
Columns = dict[str, Callable[[Mapping[str, Any]], str]]


def table_of(
    columns: Columns, rows: Iterable[Mapping[str, Any]], names: int = 1, title: str = ""
) -> Table:
    """Rows of a document as a table."""
    lines = [[show(row) for show in columns.values()] for row in rows]
    return Table(list(columns), lines, names, title)


Block = Heading | Words | Code | Facts | Table | States | Picture


def markdown(title: str, blocks: Iterable[Block]) -> str:
    """The page in GitHub's Markdown; texts stand for themselves, whatever characters they hold."""
    return "\n\n".join([f"# {_plain(title)}", *map(_markdown, blocks)]) + "\n"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*\[\]|$~#])", r"\\\1", html.escape(clean(text), quote=False))


def _markdown(block: Block) -> str:
    match block:
        case Heading(text):
            return f"## {_plain(text)}"
        case Words(text, strong):
            return f"> {_plain(text)}" if strong else _plain(text)
        case Code(text):
            return "\n".join(f"    {clean(line)}" for line in text.split("\n"))
        case States(states):
            texts = ["".join(_marked(*piece) for piece in state) for state in states]
            return "\n".join(f"    {text}" for text in texts)
        case Facts(pairs):
            return "\n".join(f"- {_plain(name)}: {_plain(value)}" for name, value in pairs)
        case Picture(_, path, caption):
            return f"![{_plain(caption)}]({path})"
        case Table(head, rows, names, title):
            ruler = [":--"] * names + ["--:"] * (len(head) - names)
            lines = [[_plain(cell) for cell in row] for row in (head, *rows)]
            lines.insert(1, ruler)
            above = f"**{_plain(title)}**\n\n" if title else ""
            return above + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _marked(text: str, right: bool) -> str:
    line = one_line(text)
    return line if right else f"[{line}]"


def webpage(title: str, blocks: Iterable[Block]) -> str:
    """The page as one HTML file, by the template page.html with the styles of page.css."""
    from markupsafe import Markup

    style = Markup((FOLDER / "page.css").read_text(encoding="utf-8"))
    kinds = [(type(block).__name__, block) for block in blocks]
    page = _templates().get_template("page.html")
    return page.render(title=title, style=style, blocks=kinds) + "\n"


@cache
def _templates() -> "Environment":
    """Templates whose values are cleaned and escaped, unless they are marked as HTML."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup, escape

    def cleaned(value: object) -> object:
        return value if isinstance(value, Markup) else clean(value)

    def breakable(name: str) -> Markup:
        """A method's long label may be broken before its options."""
        return escape(clean(name)).replace(":", Markup("<wbr>:"))

    templates = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, finalize=cleaned)
    templates.filters["breakable"] = breakable
    templates.filters["one_line"] = one_line
    return templates
