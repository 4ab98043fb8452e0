"""A document as files: JSON, a page in Markdown and HTML, and pictures beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leapdecode_bench.measure.canvas import STYLE, inline, pictures
from leapdecode_bench.measure.pages import Block, Facts, Heading, Picture, markdown, webpage

Drawn = dict[str, tuple[str, str, bytes]]  # by name: caption, SVG, PNG


def paint(figures: Mapping[str, tuple[str, Any]]) -> Drawn:
    """Figures by name, each as its caption and what makes it, as (caption, SVG, PNG)."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        return {
            name: (caption, *pictures(make(), name)) for name, (caption, make) in figures.items()
        }


def publish(
    path: Path, title: str, report: Mapping[str, Any], page: Sequence[Block], drawn: Drawn
) -> None:
    """Write the document to `path` and report.md, report.html and the pictures beside it.

    Pictures come behind what is on the page, then what was run.
    """
    folder = path.parent
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    found = list(page)
    for name, (caption, svg, png) in drawn.items():
        (folder / f"{name}.png").write_bytes(png)
        picture = Picture(inline(svg, name, caption), f"{name}.png", caption)
        found += [Heading(caption), picture]
    facts = [(key, str(value)) for key, value in report["run"].items()]
    found += [Heading("What was run"), Facts(facts)]
    (folder / "report.md").write_text(markdown(title, found), encoding="utf-8")
    (folder / "report.html").write_text(webpage(title, found), encoding="utf-8")
