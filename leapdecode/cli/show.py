"""How decoded text looks: which tokens came in one forward, and where each was guessed.

With colour a guessed token has its source's colour. Without, tokens of one forward stand in
brackets when there are several of them.
"""

import unicodedata
from collections.abc import Iterable
from itertools import groupby

from rich.text import Text

from leapdecode.llm.result import Piece, Result

COLOURS = {
    "window": "magenta",
    "ngram": "cyan",
    "prompt": "green",
    "draft": "blue",
    "second": "bright_blue",
    "phrase": "yellow",
}
BRACKETS = ("\u27e6", "\u27e7")


def escape(text: str) -> str:
    """Make control characters visible, so that model text cannot steer a terminal; newlines and
    tabs stay.
    """
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf") else _visible(c)
        for c in text
    )


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def styled(piece: Piece) -> Text:
    """One piece in its source's colour; the target's own tokens keep the terminal's."""
    return Text(
        escape(piece.text), style=COLOURS.get(piece.source, "") if piece.source != "target" else ""
    )


def marked_text(pieces: Iterable[Piece], colour: bool) -> Text:
    """All pieces, by step: coloured by source, or with brackets round the steps that gained several
    tokens.
    """
    shown = Text()
    for _, group in groupby(pieces, key=lambda piece: piece.step):
        step = list(group)
        if colour or len(step) == 1:
            for piece in step:
                shown.append_text(styled(piece) if colour else Text(escape(piece.text)))
        else:
            shown.append(BRACKETS[0] + escape("".join(piece.text for piece in step)) + BRACKETS[1])
    return shown


def legend(sources: Iterable[str], colour: bool) -> Text:
    """What the marks mean, for the sources that occurred."""
    if not colour:
        return Text(f"{BRACKETS[0]}...{BRACKETS[1]} = several tokens from one forward")
    shown = Text("guessed by: ")
    for source in sorted(set(sources) - {"target"}):
        shown.append(source, style=COLOURS.get(source, ""))
        shown.append("  ")
    return shown.append("(plain: the model's own next token)", style="dim")


def pieces_of(result: Result) -> list[Piece]:
    """A finished result as the pieces that streaming would have given."""
    found, told = [], 0
    for number, step in enumerate(result.steps):
        for token, source in zip(step.tokens, step.sources, strict=True):
            text = result.pieces[told] if result.pieces else ""
            found.append(Piece(text, token, number, source))
            told += 1
    return found
