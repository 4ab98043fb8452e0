"""What `leapdecode tree compare` keeps and shows."""

from collections.abc import Mapping
from json import dumps
from pathlib import Path
from typing import Any

from leapdecode.cli.common import print_page, print_table


def name_of(cell: Mapping[str, Any]) -> str:
    """A folder's name for a combination of settings; of a task from a file the name alone."""
    values = [str(value).partition("=")[0] for value in cell.values() if value is not None]
    parts = [value.replace(",", "") for value in values]
    return "-".join(parts)


def save(folder: Path, record: Any, tree: Any) -> None:
    """Keep the tree of a question, once: under the seeded verifier all strategies have the same."""
    path = folder / f"question-{record.question}.json"
    if tree.chosen is not None and not path.exists():
        path.write_text(dumps(tree.to_json(), ensure_ascii=False) + "\n", encoding="utf-8")


def merged(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One document: the rows of all combinations, each with its settings."""
    if len(reports) == 1:
        return reports[0]
    keys = ("task", "thoughts", "temperature", "k_config", "verification")
    rows = [{key: one["run"][key] for key in keys} | row for one in reports for row in one["rows"]]
    return {"schema": 1, "run": reports[0]["run"], "rows": rows}


def show(report: Mapping[str, Any], folder: Path) -> None:
    """The table, and where the page is."""
    from leapdecode_bench.measure.trees.page import SHORT, cells

    run = report["run"]
    rows = [[cells(row)[name] for name in SHORT] for row in report["rows"]]
    print_table(SHORT, rows, title=f"{run['task']}, temperature {run['temperature']}")
    print_page(folder)


def close_last_line(path: Path) -> None:
    """End a line that an interrupted run has cut off."""
    if path.exists() and path.read_bytes()[-1:] not in (b"", b"\n"):
        with path.open("a") as file:
            file.write("\n")
