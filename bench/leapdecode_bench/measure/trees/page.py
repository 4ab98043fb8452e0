"""A comparison as files: compare.json, report.md, report.html and pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leapdecode_bench.measure.canvas import inline
from leapdecode_bench.measure.pages import (
    Block,
    Facts,
    Heading,
    Picture,
    Table,
    Words,
    markdown,
    webpage,
)
from leapdecode_bench.measure.plots import available
from leapdecode_bench.measure.trees.pictures import draw
from leapdecode_bench.measure.trees.records import TreeRecord
from leapdecode_bench.measure.trees.summary import PARTS, rows, simulation

NONE = "-"
HEAD = (
    "strategy", "tokens/s", "speed-up", "tokens/ forward", "acceptance: thoughts", "evaluations",
    "queue wait", "target idle", "memory", "score", "equal",
)  # fmt: skip
SHORT = ("strategy", "tokens/s", "speed-up", "target idle", "score", "equal")  # on a terminal
HOW_TO_READ = (
    "Speed-up: every question was searched under all strategies in turn; the median over questions "
    "of the ratio of tokens a second to serial execution's, with its 95% interval.",
    "Acceptance: drafted levels that the target accepted, by those that were drafted. Queue wait: "
    "mean time that a request waited for its verification. Target idle: share of the time in which "
    "the target did not run. Equal: whether all trees, with texts, values and answers, are serial "
    "execution's.",
    "Prefixes: prompt tokens that were computed, against the positions of the prompts' trie, which "
    "is the least that there can be. Under exact decoding in half precision only tokens whose bits "
    "are known to be equal are shared.",
)


def document(records: Sequence[TreeRecord], run: Mapping[str, Any], drafts: int) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "schema": 1,
        "run": dict(run),
        "rows": rows(records, run["strategies"]),
        "simulation": simulation(records, drafts),
    }


def write(folder: Path, records: Sequence[TreeRecord], report: Mapping[str, Any]) -> None:
    """The document, the page and its pictures."""
    (folder / "compare.json").write_text(json.dumps(report, indent=1) + "\n")
    drawn = draw(records, report["rows"]) if available() else {}
    found = {}
    for name, (caption, svg, png) in drawn.items():
        (folder / f"{name}.png").write_bytes(png)
        found[name] = Picture(inline(svg, name, caption), f"{name}.png", caption)
    title = f"{report['run']['model']}: trees of {report['run']['task']}"
    page = blocks(report, found)
    (folder / "report.md").write_text(markdown(title, page))
    (folder / "report.html").write_text(webpage(title, page))


def blocks(report: Mapping[str, Any], found: Mapping[str, Picture]) -> list[Block]:
    """The page: figures, how to read them, simulation, prefixes, pictures, what was run."""
    page: list[Block] = [
        Table(HEAD, [list(cells(row).values()) for row in report["rows"]], names=1)
    ]
    page += [Words(text) for text in HOW_TO_READ]
    simulated = report["simulation"]
    if simulated:
        page += [
            Heading(
                f"Algorithm 1, simulated for {simulated['drafts']} drafts on their own devices"
            ),
            Words(
                "From the forward times and acceptances of serial and serial-speculative execution "
                "here. SEED reports up to 1.56x over serial with an LLaMA2-7B (Table 1)."
            ),
            Table(
                ("strategy", "speed-up", "target idle"),
                [
                    (one["strategy"], f"{one['speedup']:.2f}x", percent(one["target_idle"]))
                    for one in simulated["rows"]
                ],
                names=1,
            ),
        ]
    page += [Heading("Prefixes"), Table(
        ("strategy", "prompt tokens", "computed", "positions of the trie", "computed again"),
        [
            (
                row["strategy"], str(row["prompt_tokens"]), str(row["computed_tokens"]),
                str(row["distinct_tokens"]),
                str(max(row["computed_tokens"] - row["distinct_tokens"], 0)),
            )
            for row in report["rows"]
        ],
        names=1,
    )]  # fmt: skip
    for picture in found.values():
        page += [Heading(picture.caption), picture]
    facts = [(key, str(value)) for key, value in report["run"].items()]
    return [*page, Heading("What was run"), Facts(facts)]


def cells(row: Mapping[str, Any]) -> dict[str, str]:
    """A row by the names of `HEAD`."""
    low, high = row["speedup_interval"]
    ratio = NONE if row["speedup"] is None else f"{row['speedup']:.2f}x {low:.2f}-{high:.2f}"
    equal = {None: NONE, True: "yes", False: "NO"}[row["texts_equal_to_serial"]]
    values = [
        row["strategy"],
        f"{row['tokens_per_second']:.1f}",
        ratio,
        NONE if row["tokens_per_forward"] is None else f"{row['tokens_per_forward']:.2f}",
        *(percent(row["acceptance"][part]) for part in PARTS[:2]),
        f"{1e3 * row['queue_wait']:.0f} ms",
        percent(row["target_idle"]),
        f"{row['peak_memory'] / 1e9:.2f} GB",
        NONE if row["score"] is None else f"{row['score']:.2f}",
        equal,
    ]
    return dict(zip(HEAD, values, strict=True))


def percent(share: float | None) -> str:
    """A share as per cent."""
    return NONE if share is None else f"{100 * share:.0f}%"
