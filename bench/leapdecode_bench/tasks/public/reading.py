"""Reads published files as rows: JSON, JSON lines, CSV, Parquet, plain lines, saved datasets.

A row that cannot be read becomes a `Row` error of its own, so that the others are not lost.
"""

import csv
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from leapdecode.errors import OptionError, TaskError
from leapdecode_bench.tasks.public.rows import Row, RowError

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
