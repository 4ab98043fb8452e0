"""A comparison as files: compare.json, report.md, report.html and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from leapdecode.reasoning.fastcot.calibration import Calibration
from leapdecode_bench.measure.cells import NONE, compact, seconds, shown
from leapdecode_bench.measure.fastcot.contenders import label_of
from leapdecode_bench.measure.fastcot.pictures import draw
from leapdecode_bench.measure.fastcot.records import BatchRecord, Key
from leapdecode_bench.measure.fastcot.summary import key_of, rows
from leapdecode_bench.measure.pages import Block, Heading, Table, Words
from leapdecode_bench.measure.plots import available
from leapdecode_bench.measure.publish import publish
from leapdecode_bench.measure.trees.page import percent

HEAD = (
    "contender", "accuracy", "loss", "time saved", "seconds", "forwards", "saved by hits",
    "tokens", "approximate", "exact part equal",
)  # fmt: skip
SHORT = ("contender", "accuracy", "loss", "time saved", "seconds")  # on a terminal
HOW_TO_READ = (
    "Every batch of questions was answered by all contenders in turn, in an order drawn for it. "
    "Time saved: the median over batches of the share of cot's time that a contender did not need; "
    "loss: the mean over questions of cot's score less the contender's, in points of accuracy; "
    "both with 95% intervals. Answers count in all figures, on both sides.",
    "Forwards are those that gave tokens; saved by hits: tokens less forwards (the paper's IS and "
    "TI). Approximate: tokens that stood between exact part and trigger. Exact part equal: whether "
    "every exact part is what the plain rationale begins with, and all of it where nothing was "
    "cut.",
    "All contenders but cot and cot with a lossless method may answer wrongly where the whole "
    "rationale would have led to the right answer. That is meant so: they look at a part of it.",
)
PARTS = (
    "Seconds by part (the paper's Table 2). Inference is the target's forwards, guessing the "
    "method's own work with the reading of answers, choosing the tokens at the nodes, cache what "
    "keeps the caches in order (the paper's padding and Strip KV)."
)


def document(
    records: Sequence[BatchRecord], keys: Sequence[Key], calibrations: Mapping[str, Calibration],
    run: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """What `--json` prints; `calibrations` by method, the first of them is `calibration` too."""
    found = {method: asdict(one) for method, one in calibrations.items()}
    return {
        "schema": 1,
        "task": run["task"],
        "rows": rows(records, keys),
        "calibration": next(iter(found.values()), None),
        "calibrations": found,
        "run": dict(run),
    }


def write(folder: Path, report: Mapping[str, Any]) -> None:
    """The document, the page and its pictures."""
    title = f"{report['run']['model']}: FastCoT on {report['task']}"
    drawn = draw(report) if available() else {}
    publish(folder / "compare.json", title, report, blocks(report), drawn)


def blocks(report: Mapping[str, Any]) -> list[Block]:
    """The page: figures, how to read them, where the time went, the bound."""
    table = report["rows"]
    parts = list(table[0]["time_composition"]) if table else []
    page: list[Block] = [Table(HEAD, [list(cells(row).values()) for row in table], names=1)]
    page += [Words(text) for text in HOW_TO_READ]
    page += [
        Heading("Where the time went"),
        Words(PARTS),
        Table(
            ("contender", *parts, "cache by inference"),
            [
                (
                    label_of(*key_of(row)),
                    *(seconds(row["time_composition"][part]) for part in parts),
                    tidying(row["time_composition"]),
                )
                for row in table
            ],
            names=1,
        ),
    ]
    found = report["calibrations"]
    return [*page, Heading("Bounds"), *map(calibrated, found, found.values())] if found else page


def tidying(parts: Mapping[str, float]) -> str:
    """What keeping the caches takes, as a share of the forwards."""
    return f"{100 * parts['cache'] / parts['inference']:.1f}%" if parts["inference"] else NONE


def calibrated(method: str, found: Mapping[str, Any]) -> Words:
    """The bound of a method, and how it was found."""
    return Words(
        f"{method}: {found['iterations']} iterations, by {found['questions']} other questions: the "
        f"least bound from which on accuracy is at most {points(found['max_loss'])} below that of "
        f"whole rationales ({percent(found['accuracy'])}); at the bound the loss is "
        f"{points(found['loss'])}."
    )


def points(share: float) -> str:
    """A share of the questions as points of accuracy."""
    return f"{100 * share:.1f} points"


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """A row by the names of `HEAD`."""
    values = [
        label_of(*key_of(row)),
        f"{100 * row['accuracy']:.1f}%",
        between(row["loss"], row["loss_interval"], ""),
        between(row["saved_time"], row["saved_time_interval"], "%"),
        compact(row["seconds"]),
        str(row["iterations"]),
        str(row["iterations_saved"]),
        str(row["tokens"]),
        str(row["approximate"]),
        {None: NONE, True: "yes", False: "NO"}[row["rationale_equal"]],
    ]
    return dict(zip(HEAD, values, strict=True))


def between(share: float | None, interval: Sequence[float] | None, unit: str) -> str:
    """A share in hundredths with its interval, where that has a width."""
    if share is None or interval is None:
        return NONE
    low, high = interval
    wide = f" {100 * low:.1f} to {100 * high:.1f}" if low < high else ""
    return shown(100 * share, "{:.1f}") + unit + wide
