"""Where a bench keeps its records: a folder that an interrupted run can be taken up in."""

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from leapdecode.errors import OptionError
from leapdecode.measure.bench import Record

RECORDS, RUN, RESULTS = "records.jsonl", "run.json", "results.json"
VOLATILE = ("argv",)  # may differ between the halves of one run


class Store:
    """A folder with `run.json` (what is measured) and `records.jsonl` (one line per generation)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def open(cls, root: Path, fixed: Path | None, run: dict[str, Any], resume: bool) -> "Store":
        """A new folder, or with `resume` the last one of the same run.

        `fixed` names the folder; without it a folder below `root` is named after the time. Raises `OptionError` where
        a new run would write over an old one, or where there is nothing to resume.
        """
        if resume:
            places = [fixed] if fixed else sorted(root.glob("*/"), reverse=True)
            for place in places:
                if not differences(known(place / RUN), run):
                    return cls(place)
            if fixed and known(fixed / RUN):
                other = ", ".join(differences(known(fixed / RUN), run))
                raise OptionError(f"nothing to resume: {fixed} holds another run (other {other}); leave --resume out")
            where = fixed or f"no folder in {root}/"
            what = "no run" if fixed else "this run"
            raise OptionError(f"nothing to resume: {where} holds {what}; leave --resume out")
        folder = fixed or root / datetime.now().strftime("%Y%m%d-%H%M%S")
        if (folder / RECORDS).exists():
            raise OptionError(f"{folder} holds results already; add --resume, or choose another --output")
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f"{RUN}.part"
        beside.write_text(json.dumps(run, indent=2) + "\n")
        beside.replace(folder / RUN)
        return cls(folder)

    def read(self) -> list[Record]:
        """The records so far, the last one of equal ones; a half-written last line is left out."""
        path = self.folder / RECORDS
        found: dict[tuple[str, str, int, int], Record] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                record = Record(**json.loads(line))
            except (json.JSONDecodeError, TypeError):
                continue
            found[record.key] = record
        return list(found.values())

    def add(self, records: list[Record]) -> None:
        """Append the records of one round, in one write; a line that was cut off is closed first."""
        with (self.folder / RECORDS).open("ab+") as file:
            if file.tell():
                file.seek(-1, 2)
                cut_off = file.read(1) != b"\n"
                file.write(b"\n" * cut_off)
            file.write("".join(json.dumps(asdict(record)) + "\n" for record in records).encode())


def known(path: Path) -> dict[str, Any]:
    """What a folder says it holds; nothing where that is missing or damaged."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """In what two runs differ; nothing where they measure the same thing, of one code, on the same machine."""
    keys = sorted({*one, *other} - {*VOLATILE})
    return [key for key in keys if one.get(key) != json.loads(json.dumps(other.get(key)))]
