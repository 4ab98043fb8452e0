"""Reads a task's TOML file, field by field; every error names the file and the field."""

import re
import string
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from leapdecode.errors import TaskError, with_suggestions
from leapdecode.reasoning.answers import HIGHEST, LOWEST


def read(path: str) -> "Table":
    """The tables of the file; raises `TaskError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return Table(path, "", tomllib.loads(text))
    except OSError as error:
        raise TaskError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} is not TOML: {error}") from error


class Table:
    """One table of the file, and which of its fields have been asked for."""

    def __init__(self, path: str, name: str, values: dict[str, Any]) -> None:
        self.path, self.name, self.values = path, name, values
        self.known: set[str] = set()

    def refuse(self, field: str, rule: str) -> NoReturn:
        """Raise a `TaskError` that names the file and a field."""
        name = f"{self.name}.{field}" if self.name else field
        raise TaskError(f"{self.path}: {name} {rule}")

    def text(self, field: str, default: str | None = None) -> str:
        """A text; one that is needed must not be empty."""
        found = self._value(field, default)
        if not isinstance(found, str) or (default is None and not found.strip()):
            self.refuse(field, "must be a text that is not empty")
        return found

    def number(self, field: str, default: int | None = None) -> int:
        """A whole number of at least 1."""
        found = self._value(field, default)
        if not isinstance(found, int) or isinstance(found, bool) or found < 1:
            self.refuse(field, f"must be a whole number of at least 1, not {found!r}")
        return found

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, empty where it is left out."""
        found = self._value(field, [])
        if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
            self.refuse(field, "must be a list of texts that are not empty")
        return tuple(found)

    def pattern(self, field: str) -> re.Pattern[str] | None:
        """A regular expression; None where it is left out."""
        found = self.text(field, "")
        try:
            return re.compile(found) if found else None
        except re.error as error:
            self.refuse(field, f"is no regular expression: {error}")

    def labels(self, field: str) -> dict[str, float]:
        """Values by label, in lower case; empty where they are left out."""
        found = self._value(field, {})
        if not isinstance(found, dict) or not all(map(_is_value, found.values())):
            self.refuse(field, f"must be a table of labels with values from {LOWEST} to {HIGHEST}")
        return {label.lower(): float(value) for label, value in found.items()}

    def table(self, field: str) -> "Table":
        """A table that is needed."""
        found = self._value(field, None)
        if not isinstance(found, dict):
            self.refuse(field, f"must be a table: [{field}]")
        return Table(self.path, field, found)

    def tables(self, field: str) -> "list[Table]":
        """A list of tables, empty where it is left out."""
        found = self._value(field, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            self.refuse(field, f"must be a list of tables: [[{field}]]")
        return [Table(self.path, f"{field} {n}", one) for n, one in enumerate(found, 1)]

    def check_fields(self, field: str, template: str, fields: Sequence[str]) -> None:
        """Refuse a template with other fields than these."""
        try:
            parts = list(string.Formatter().parse(template))
        except ValueError as error:
            self.refuse(field, f"has a brace of no field ({error}); write {{{{ for a brace")
        for _, name, form, conversion in parts:
            if name is not None and name not in fields:
                self.refuse(field, with_suggestions(f"has no field {{{name}}}", name, fields))
            if form or conversion:
                self.refuse(field, f"must name {{{name}}} alone, without a format")

    def check_all_known(self) -> None:
        """Refuse a field that nobody asked for."""
        for field in self.values:
            if field not in self.known:
                self.refuse(field, with_suggestions("is unknown", field, self.known))

    def _value(self, field: str, default: Any) -> Any:
        self.known.add(field)
        if field not in self.values and default is None:
            self.refuse(field, "is missing")
        return self.values.get(field, default)


def _is_value(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and LOWEST <= value <= HIGHEST
