"""One row of a published file: its fields by name, every error with file, row and field."""

from collections.abc import Mapping
from typing import Any, NoReturn

from leapdecode.errors import TaskError

MISSING = object()


class RowError(TaskError):
    """A row that is not as the set's format says; the message names file, row and field."""


class Row:
    """A row and where it stands, as "FILE, line 3"."""

    def __init__(self, place: str, values: Any) -> None:
        self.place, self.values = place, values

    def refuse(self, field: str, rule: str) -> NoReturn:
        """Raise a `RowError` that names the row and a field."""
        raise RowError(f'{self.place}: "{field}" {rule}')

    def value(self, *fields: str) -> Any:
        """The value of the first of these fields that the row has, else `MISSING`.

        A dot leads into an object: "question.stem". A number is a place in a list.
        """
        for field in fields:
            value = self.values
            for part in field.split("."):
                value = _inside(value, part)
            if value is not MISSING:
                return value
        return MISSING

    def text(self, *fields: str) -> str:
        """A text that is not empty."""
        value = self.value(*fields)
        if value is MISSING:
            self.refuse(fields[0], "is missing")
        if not isinstance(value, str) or not value.strip():
            self.refuse(fields[0], f"must be a text that is not empty, not {_short(value)}")
        return value

    def optional(self, *fields: str) -> str:
        """A text, empty where the row has none."""
        value = self.value(*fields)
        if value is MISSING or value is None:
            return ""
        if not isinstance(value, str):
            self.refuse(fields[0], f"must be a text, not {_short(value)}")
        return value

    def texts(self, *fields: str, least: int = 1) -> list[str]:
        """A list of at least so many texts that are not empty."""
        value = self.value(*fields)
        if value is MISSING:
            self.refuse(fields[0], "is missing")
        whole = isinstance(value, list) and all(isinstance(text, str) and text for text in value)
        if not whole or len(value) < least:
            rule = f"must be a list of {least} or more texts that are not empty"
            self.refuse(fields[0], f"{rule}, not {_short(value)}")
        return list(value)

    def name(self, *fields: str) -> str:
        """A text or a whole number, as a text: what a row is called."""
        value = self.value(*fields)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            self.refuse(fields[0], "must be a text or a whole number")
        return str(value)


def _inside(values: Any, part: str) -> Any:
    if isinstance(values, Mapping):
        return values.get(part, MISSING)
    if isinstance(values, list) and part.isdecimal() and int(part) < len(values):
        return values[int(part)]
    return MISSING


def _short(value: Any) -> str:
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= 40 else f"{shown[:40]}..."
