"""A document as files: JSON, a page in Markdown and in HTML, and plots beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leapdecode_bench.measure.canvas import STYLE, images, inline
from leapdecode_bench.measure.pages import Block, Picture, markdown, webpage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# by name: caption, and what makes the figure, or None where the document lacks its data
Figures = Mapping[str, tuple[str, Callable[[], "Figure | None"]]]
Pictures = Mapping[str, Picture]


def available() -> bool:
    """Whether plots can be drawn here."""
    return find_spec("matplotlib") is not None


def publish(
    path: Path,
    title: str,
    report: Mapping[str, Any],
    page: Callable[[Pictures], Iterable[Block]],
    figures: Figures,
) -> list[Path]:
    """Write the document to `path`; report.md, report.html and plots/ beside it.

    Args:
        page: the blocks of the page, given its pictures by name.

    Returns the files, each written whole or not at all.
    """
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    pictures = dict[str, Picture]()
    files = list[Path]()
    for name, (caption, svg, png) in drawn(figures).items():
        pictures[name] = Picture(inline(svg, name, caption), f"plots/{name}.png", caption)
        files.append(write_file(folder / "plots" / f"{name}.svg", svg.encode()))
        files.append(write_file(folder / "plots" / f"{name}.png", png))
    blocks = list(page(pictures))
    texts = {
        "report.md": markdown(title, blocks),
        "report.html": webpage(title, blocks),
        path.name: json.dumps(report, indent=2) + "\n",
    }
    return [write_file(folder / name, text.encode()) for name, text in texts.items()] + files


def drawn(figures: Figures) -> dict[str, tuple[str, str, bytes]]:
    """(caption, SVG, PNG) of each figure that there is; nothing where matplotlib is missing."""
    if not available():
        return {}
    import matplotlib

    images_by_name = {}
    with matplotlib.rc_context(STYLE):
        for name, (caption, make) in figures.items():
            figure = make()
            if figure is not None:
                images_by_name[name] = (caption, *images(figure, name))
    return images_by_name


def write_file(path: Path, content: bytes) -> Path:
    """Write a file beside its place, then move it there."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(content)
    os.replace(beside, path)
    return path
