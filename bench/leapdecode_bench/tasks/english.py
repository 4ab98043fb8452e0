"""What the words of several tasks need: capitals, articles, lists."""

from collections.abc import Sequence


def capital(sentence: str) -> str:
    """The sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]


def a_or_an(word: str) -> str:
    """The article before a word."""
    return "an" if word[0] in "aeiou" else "a"


def listed(words: Sequence[str], last: str = "and") -> str:
    """The words as a sentence lists them: `a`, `a and b`, `a, b and c`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]
