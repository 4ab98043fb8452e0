"""A results folder: the document that its records make, and the files that readers open.

`bench` ends with `render`, and `leapdecode report` is nothing else, so both write the same files.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from leapdecode.errors import ResultsError
from leapdecode_bench.measure import plots
from leapdecode_bench.measure.publish import publish
from leapdecode_bench.measure.report import blocks, title
from leapdecode_bench.measure.store import RESULTS, RUN, Store, read_json
from leapdecode_bench.measure.summary import NEEDED, SCHEMA, complete, document


@dataclass(frozen=True)
class Rendered:
    """A document, the file that it was made from, and the files that were written of it."""

    report: dict[str, Any]
    source: Path
    files: list[Path]


@dataclass(frozen=True)
class Entry:
    """A contender as `run.json` names it."""

    label: str
    options: dict[str, Any]


def render(folder: Path, output: Path | None = None) -> Rendered:
    """Write results.json, report.md, report.html and plots/ of the records in `folder`.

    They go to `output`, by default the folder itself. Raises `ResultsError`, see `load`.
    """
    report, source = load(folder)
    return Rendered(report, source, write_files(report, output or folder))


def load(folder: Path) -> tuple[dict[str, Any], Path]:
    """(document, file it was made from): of the records, or where there are none results.json.

    Raises `ResultsError` where the folder has neither, or where they are damaged.
    """
    store = Store(folder)
    if store.files():
        return from_records(store), store.files()[0]
    if (folder / RESULTS).exists():
        return from_document(folder / RESULTS), folder / RESULTS
    if not folder.is_dir():
        raise ResultsError(f"there is no folder {folder}; `leapdecode bench --output` makes one")
    below = sorted(path.parent.name for path in folder.glob(f"*/{RESULTS}"))
    few = ", ".join([*below[:3], *(["..."] if len(below) > 3 else [])])
    hint = f"name one of its folders: {few}" if below else "name a folder of a bench"
    raise ResultsError(f"{folder} holds no records of a bench and no {RESULTS}; {hint}")


def from_records(store: Store) -> dict[str, Any]:
    """The document of the rounds that are complete.

    A line that an interrupted run cut off does no harm once its round was measured again.
    """
    run = read_json(store.folder / RUN)
    records = store.read()
    contenders = contenders_of(run.pop("contenders", None), store.folder / RUN)
    whole = complete(records, contenders)
    lost = store.damaged()
    if (lost and len(whole) < len(records)) or not whole:
        what = f"{lost[0]} is damaged" if lost else f"{store.folder} holds no complete round yet"
        way_out = f"the same bench with --resume --output {store.folder} measures what is missing"
        raise ResultsError(f"{what}; {way_out}")
    return document(run, whole, contenders)


def contenders_of(contenders: Any, path: Path) -> list[Entry]:
    """The contenders of `run.json`, in the order of the tables; raises `ResultsError`."""
    try:
        return [
            Entry(str(contender["label"]), dict(contender["options"])) for contender in contenders
        ]
    except (TypeError, KeyError, ValueError):
        raise ResultsError(
            f"{path} is missing, damaged, or of an earlier version, and records are not read "
            "without it; measure again with `leapdecode bench --output` and another folder"
        ) from None


def from_document(path: Path) -> dict[str, Any]:
    """A document as `write_files` wrote it; raises `ResultsError` where it is something else."""
    report = read_json(path)
    run, rows = report.get("run"), report.get("rows")
    if report.get("schema") != SCHEMA or not isinstance(run, dict) or not isinstance(rows, list):
        raise ResultsError(f"{path} is damaged, or no document of a bench; restore it")
    for row in rows:
        missing = sorted(NEEDED - set(row)) if isinstance(row, dict) else sorted(NEEDED)
        if missing:
            raise ResultsError(f"{path} is damaged: a row has no {missing[0]!r}; restore it")
    return report


def write_files(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write the document, its pages and its plots into `folder`."""
    page = partial(blocks, report)
    figures = plots.figures(report)
    return publish(folder / RESULTS, title(report), report, page, figures)
