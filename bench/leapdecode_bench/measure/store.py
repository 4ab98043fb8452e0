"""Where measurements keep their records: a folder that an interrupted run can be taken up in."""

import functools
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode.errors import OptionError, ResultsError
from leapdecode_bench.measure.records import Record

if TYPE_CHECKING:
    from pydantic import TypeAdapter

RECORDS, RUN, RESULTS = "records.jsonl", "run.json", "results.json"
# may differ between the halves of one run
VOLATILE = ("argv", "limit", "row_costs", "row_costs_measured", "perplexity")


@functools.cache
def _reader(kind: type) -> "TypeAdapter[Any]":
    """Checks the fields of a record that is read, with those of the records in it."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def parse(line: str, kind: type = Record) -> Any | None:
    """The record that a line holds; None where the line is cut off, damaged or something else."""
    try:
        return _reader(kind).validate_json(line, strict=True, extra="forbid")
    except ValueError:
        return None


class Store:
    """A folder with `run.json` (what is measured) and a line of JSON for each record.

    Records are dataclasses with a `key`. They may be compressed (`gzip records.jsonl`): they are
    read from `records.jsonl.gz` too, and new ones go to a `records.jsonl` beside it.
    """

    def __init__(self, folder: Path, kind: type = Record, name: str = RECORDS) -> None:
        self.folder = folder
        self.kind = kind
        self.name = name

    @classmethod
    def open(cls, root: Path, fixed: Path | None, run: dict[str, Any], resume: bool) -> "Store":
        """A new folder, or with `resume` the last one of the same run.

        `fixed` names the folder; without it a folder below `root` is named after the time. Raises
        `OptionError` where a new run would write over an old one, or where there is nothing to
        resume.
        """
        if resume:
            return cls._resumed(root, fixed, run)
        store = cls(fixed or root / datetime.now().strftime("%Y%m%d-%H%M%S"))
        if store.files():
            way_out = (
                "to go on with it repeat its command with --resume, else choose another --output"
            )
            raise OptionError(f"{store.folder} holds results already; {way_out}")
        store.folder.mkdir(parents=True, exist_ok=True)
        store.describe(run)
        return store

    @classmethod
    def check_resumable(cls, root: Path, fixed: Path | None) -> None:
        """Raise `OptionError` where no run was ever begun: known before a model is loaded."""
        if not any(read_json(folder / RUN) for folder in cls._places(root, fixed)):
            raise cls._nothing_to_resume(root, fixed, "no run" if fixed else "this run")

    @classmethod
    def _resumed(cls, root: Path, fixed: Path | None, run: dict[str, Any]) -> "Store":
        cls.check_resumable(root, fixed)
        for folder in cls._places(root, fixed):
            if not differences(read_json(folder / RUN), run):
                return cls(folder)
        what = "this run"
        if fixed:
            what = f"another run (other {', '.join(differences(read_json(fixed / RUN), run))})"
        raise cls._nothing_to_resume(root, fixed, what)

    @staticmethod
    def _places(root: Path, fixed: Path | None) -> list[Path]:
        return [fixed] if fixed else sorted(root.glob("*/"), reverse=True)

    @staticmethod
    def _nothing_to_resume(root: Path, fixed: Path | None, what: str) -> OptionError:
        where = str(fixed) if fixed else f"no folder in {root}/"
        way_out = (
            "repeat the command that began it, or choose another --output"
            if fixed
            else "leave --resume out"
        )
        return OptionError(f"nothing to resume: {where} holds {what}; {way_out}")

    def begin(self, run: dict[str, Any], resume: bool) -> None:
        """Write down what is measured; with `resume` it must be what the folder holds.

        Raises `OptionError` where it is not.
        """
        path = self.folder / RUN
        if resume and path.exists() and (different := differences(read_json(path), run)):
            message = f"{self.folder} holds another run (other {', '.join(different)})"
            raise OptionError(f"{message}; choose another --output")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.describe(run)

    def describe(self, run: dict[str, Any]) -> None:
        """Write down what is measured, whole or not at all."""
        beside = self.folder / f"{RUN}.part"
        beside.write_text(json.dumps(run, indent=2) + "\n")
        beside.replace(self.folder / RUN)

    def files(self) -> list[Path]:
        """The files that hold records, the oldest records first."""
        paths = (self.folder / f"{self.name}.gz", self.folder / self.name)
        return [path for path in paths if path.exists()]

    def read(self) -> list[Any]:
        """The records so far, the last one of equal ones; damaged lines are left out."""
        by_key = {record.key: record for _, record in self._parsed() if record}
        return list(by_key.values())

    def damaged(self) -> list[str]:
        """Where a line holds no record, as "FILE, line N"; an interrupted run may leave such."""
        return [line for line, record in self._parsed() if not record]

    def _parsed(self) -> Iterator[tuple[str, Any | None]]:
        for path in self.files():
            for number, line in enumerate(text_of(path).splitlines(), 1):
                if line:
                    yield f"{path}, line {number}", parse(line, self.kind)

    def add(self, records: Sequence[Any]) -> None:
        """Append records that belong together, in one write; a cut-off line is closed first."""
        with (self.folder / self.name).open("ab+") as file:
            if file.tell():
                file.seek(-1, 2)
                cut_off = file.read(1) != b"\n"
                file.write(b"\n" * cut_off)
            lines = (json.dumps(asdict(record)) + "\n" for record in records)
            file.write("".join(lines).encode())


def text_of(path: Path) -> str:
    """What a file of records holds; raises `ResultsError` where it cannot be unpacked or read."""
    try:
        content = path.read_bytes()
        raw = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).lower() or type(error).__name__
        raise ResultsError(
            f"{path} cannot be read ({reason}); restore it, or measure again with "
            "`leapdecode bench --output` and another folder"
        ) from None
    return raw.decode(errors="replace")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where the file is missing or damaged."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def differences(run: dict[str, Any], another: dict[str, Any]) -> list[str]:
    """The facts in which two runs differ, but for those of `VOLATILE`."""
    keys = sorted({*run, *another} - {*VOLATILE})
    return [key for key in keys if run.get(key) != json.loads(json.dumps(another.get(key)))]
