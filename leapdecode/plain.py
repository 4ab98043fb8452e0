"""Text of a model or a user that can neither steer a terminal nor hide what stands around it."""

import unicodedata


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


def clean(text: object) -> str:
    """On one line, without what does not print: it could hide or reorder what stands around it."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def one_line(text: str) -> str:
    """`clean` text in which line feeds can still be seen."""
    return clean(text.replace("\n", "⏎"))
