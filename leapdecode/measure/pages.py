"""A page as a list of blocks, written as Markdown or as one HTML file that needs nothing beside it."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


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
    """Rows of texts under a head; the first `names` columns are names, the others numbers. Rows with the same first
    name belong together."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """A plot: for HTML an SVG element, for Markdown the path of an image."""

    svg: str
    path: str
    caption: str


Block = Heading | Words | Code | Facts | Table | Picture


def clean(text: object) -> str:
    """On one line, without characters that do not print, which could hide or reorder what stands around them."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


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


class Markup(str):
    """Text that is HTML already; any other text is escaped before it enters a page."""


def element(name: str, *inside: str, **attributes: str) -> Markup:
    """An HTML element; texts inside that are not markup, and values of attributes, are escaped."""
    given = "".join(f' {key.rstrip("_")}="{html.escape(clean(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{''.join(map(_escaped, inside))}</{name}>")


def _escaped(text: str) -> str:
    return text if isinstance(text, Markup) else html.escape(clean(text))


def webpage(title: str, blocks: Iterable[Block]) -> str:
    """The page as one HTML file: styles and plots inside, no script; its policy forbids it to load anything."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    head = (
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        Markup(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        ),
        element("title", title),
        element("style", Markup(style)),
    )
    body = element("main", element("h1", title), *map(_html, blocks))
    return f"<!doctype html>\n{element('html', element('head', *head), element('body', body), lang='en')}\n"


def _html(block: Block) -> Markup:
    match block:
        case Heading(text):
            return element("h2", text)
        case Words(text, strong):
            return element("p", text, class_="strong") if strong else element("p", text)
        case Code(text):
            return element("pre", element("code", Markup("\n".join(map(_escaped, text.split("\n"))))))
        case Facts(pairs):
            terms = (part for name, value in pairs for part in (element("dt", name), element("dd", value)))
            return element("dl", *terms)
        case Picture(svg, _, caption):
            inside = element("div", Markup(svg), class_="wide", tabindex="0")
            return element("figure", inside, element("figcaption", caption))
        case Table():
            return _table(block)


def _table(table: Table) -> Markup:
    """A table that scrolls sideways on a narrow screen; a line above each row whose first name is new."""
    columns = range(len(table.head))
    kinds = ["name" if column < table.names else "number" for column in columns]
    head = element("tr", *(element("th", table.head[at], scope="col", class_=kinds[at]) for at in columns))
    rows, before = [], ""
    for row in table.rows:
        cells = (element("th" if at < table.names else "td", _breakable(row[at]), class_=kinds[at]) for at in columns)
        rows.append(element("tr", *cells, class_="same" if row[0] == before else "new"))
        before = row[0]
    title = [element("caption", table.title)] if table.title else []
    whole = element("table", *title, element("thead", head), element("tbody", *rows))
    return element("div", whole, class_="wide", tabindex="0")


def _breakable(name: str) -> Markup:
    """A method's long label may be broken before its options."""
    return Markup(_escaped(name).replace(":", "<wbr>:"))
