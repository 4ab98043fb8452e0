"""Reads published files as rows: JSON, JSON lines, CSV, Parquet, plain lines, saved datasets.

A row gives its fields by name. A row that cannot be read becomes an error that names file, row and
field, so that the others are not lost.
"""

import csv
import gzip
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from leapdecode.errors import OptionError, TaskError

MISSING = object()


class RowError(TaskError):
    """A row that is not as the set's format says; the message names file, row and field."""


class Row:
    """A row and where it stands, as "FILE, line 3"."""

    def __init__(self, place: str, values: Any) -> None:
        self.place = place
        self.values = values

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


LISTS = ("examples", "data", "rows")  # of a JSON object, where its rows may stand
Found = Row | RowError


def read_rows(path: Path) -> Iterator[Found]:
    """The rows of a file by its name's ending, or of a folder that `datasets` has saved.

    Raises `TaskError` where the file as a whole cannot be read.
    """
    if path.is_dir():
        return saved_rows(path)
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    ending = ending.removesuffix(".gz")
    if ending == ".parquet":
        return parquet_rows(path)
    text = text_of(path)
    if ending == ".csv":
        return csv_rows(path, text)
    return json_rows(path, text)


def text_of(path: Path) -> str:
    """The text of a file, unpacked if it is compressed; raises `TaskError`."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TaskError(f"cannot read {path}: {error}") from error


def json_rows(path: Path, text: str) -> Iterator[Found]:
    """A list of rows, an object that holds one, or a row a line."""
    try:
        whole = json.loads(text)
    except ValueError:
        return _json_lines(path, text)
    if isinstance(whole, dict):
        whole = next((whole[name] for name in LISTS if isinstance(whole.get(name), list)), [whole])
    if not isinstance(whole, list):
        raise TaskError(f"{path} holds neither a list of rows nor a row a line")
    return (Row(f"{path}, row {number}", values) for number, values in enumerate(whole, 1))


def _json_lines(path: Path, text: str) -> Iterator[Found]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            try:
                yield Row(place, json.loads(line))
            except ValueError as error:
                yield RowError(f"{place}: the line is no JSON: {error}")


def csv_rows(path: Path, text: str) -> Iterator[Found]:
    """A row by the names of the first line; articles are longer than what csv takes by default."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    rows = csv.DictReader(text.splitlines(keepends=True))
    return (Row(f"{path}, row {number}", values) for number, values in enumerate(rows, 1))


def parquet_rows(path: Path) -> Iterator[Found]:
    """The rows of a Parquet file, which pyarrow reads."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise needs("pyarrow", str(path)) from None
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise TaskError(f"cannot read {path}: {error}") from error
    return numbered(str(path), rows)


def saved_rows(path: Path, split: str | None = None) -> Iterator[Found]:
    """The rows of a folder that `Dataset.save_to_disk` has written; of several splits one."""
    try:
        import datasets
    except ImportError:
        raise needs("datasets", str(path)) from None
    try:
        dataset = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} is no folder of a saved dataset: {error}") from error
    if isinstance(dataset, datasets.DatasetDict):
        name = split if split in dataset else next(iter(dataset))
        dataset = dataset[name]
    return numbered(str(path), dataset)


def numbered(name: str, rows: Iterable[Any]) -> Iterator[Found]:
    """Rows by their number."""
    return (Row(f"{name}, row {number}", values) for number, values in enumerate(rows, 1))


def line_rows(path: Path, field: str = "text") -> Iterator[Found]:
    """A line of plain text a row, with the one field; empty lines are none."""
    lines = text_of(path).split("\n")
    return (
        Row(f"{path}, line {number}", {field: line.rstrip("\r")})
        for number, line in enumerate(lines, 1)
        if line.strip()
    )


def needs(package: str, what: str) -> OptionError:
    """The error for a package that is not installed."""
    return OptionError(f"{what} needs the package {package}: pip install 'leapdecode[eval]'")
