"""One page over all numbers of thoughts of a preset: speed and acceptance (SEED, Figure 7b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import FAINT, add_legend, style_of
from leapdecode_bench.measure.cells import percent, ratio
from leapdecode_bench.measure.pages import Block, Columns, table_of
from leapdecode_bench.measure.publish import Pictures, publish
from leapdecode_bench.measure.report import with_captions
from leapdecode_bench.measure.trees.summary import SERIAL

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS: Columns = {
    "thoughts": lambda row: str(row["thoughts"]),
    "strategy": lambda row: row["strategy"],
    "speed-up": lambda row: ratio(row["speedup"], row["speedup_interval"]),
    "acceptance": lambda row: percent(row["acceptance_of_all"]),
    "target idle": lambda row: percent(row["target_idle"]),
}


def write(folder: Path, preset: str, reports: Sequence[Mapping[str, Any]]) -> list[Path]:
    """The page of a preset whose combinations have different numbers of thoughts; nothing for
    others.

    Returns the files.
    """
    if len({report["run"]["thoughts"] for report in reports}) < 2:
        return []
    rows = [
        {"thoughts": report["run"]["thoughts"], **row}
        for report in reports
        for row in report["rows"]
    ]
    document = {"schema": 1, "preset": preset, "rows": rows}
    caption = "Speed-up over serial execution and acceptance, by the number of thoughts"
    figures = {"thoughts": (caption, partial(figure, rows))}
    title = f"{reports[0]['run']['model']}: {preset}"
    return publish(folder / "by_thoughts.json", title, document, partial(blocks, rows), figures)


def blocks(rows: Sequence[Mapping[str, Any]], pictures: Pictures) -> list[Block]:
    """The page: a table and the picture."""
    return [table_of(COLUMNS, rows), *with_captions(pictures)]


def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Speed-up and acceptance against the number of thoughts, a line per strategy."""
    from matplotlib.figure import Figure

    lines: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["strategy"] != SERIAL and row["speedup"] is not None:
            lines.setdefault(row["strategy"], []).append(row)
    drawn = Figure(figsize=(8, 3.2), layout="constrained")
    speed, acceptance = drawn.subplots(1, 2)
    for number, points in enumerate(lines.values()):
        counts = [row["thoughts"] for row in points]
        speed.plot(counts, [row["speedup"] for row in points], **style_of(number))
        rates = [row["acceptance_of_all"] for row in points]
        acceptance.plot(counts, [rate or float("nan") for rate in rates], **style_of(number))
    speed.axhline(1, color=FAINT, linewidth=1)
    speed.set_ylabel("times as fast as serial")
    acceptance.set_ylabel("acceptance rate")
    acceptance.set_ylim(0, 1.02)
    for axes in (speed, acceptance):
        axes.set_xticks(sorted({row["thoughts"] for row in rows}))
        axes.set_xlabel("thoughts, and texts drafted at a time")
    add_legend(drawn, [(style_of(number), name) for number, name in enumerate(lines)])
    return drawn
