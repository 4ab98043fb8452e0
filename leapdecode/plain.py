"""Model text that cannot steer a terminal."""

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
