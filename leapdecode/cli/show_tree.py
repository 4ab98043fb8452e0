"""How a reasoning tree is shown and written, and told of while it grows."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from leapdecode.cli.kept_files import check_place
from leapdecode.errors import OptionError

NEEDS = {"--html": "jinja2", "--svg": "matplotlib"}


def check_files(
    html: Path | None, svg: Path | None, schedule: Path | None, output: Path | None
) -> None:
    """Raise what would keep a file from being written, before a tree is searched."""
    files = (("--html", html), ("--svg", svg), ("--schedule", schedule), ("--output", output))
    for option, path in files:
        if path is None:
            continue
        check_place(option, path)
        if option in NEEDS and find_spec(NEEDS[option]) is None:
            message = f"{option} needs {NEEDS[option]}: pip install 'leapdecode[draw]'"
            raise OptionError(message)


def write(tree: Any, html: Path | None, svg: Path | None, output: Path | None) -> None:
    """Write the files that are wanted."""
    from leapdecode.reasoning.draw import picture, webpage

    if html:
        html.write_text(webpage(tree), encoding="utf-8")
    if svg:
        svg.write_text(picture(tree), encoding="utf-8")
    if output:
        document = json.dumps(tree.to_json(), ensure_ascii=False)
        output.write_text(f"{document}\n", encoding="utf-8")


def write_schedule(path: Path, driver: Any, title: str) -> None:
    """Write the page of which text was served by which forward; texts count from 1 on."""
    from leapdecode.llm.trace_page import page
    from leapdecode.reasoning.execution import spans_of

    forwards = driver.record.forwards
    spans = spans_of(forwards, forwards[0].began)
    numbers: dict[int, int] = {}
    shown = []
    for model, kind, began, ended, requests in spans:
        texts = [numbers.setdefault(one, len(numbers) + 1) for one in requests]
        shown.append((model, kind, round(1e3 * began, 3), round(1e3 * ended, 3), texts))
    path.write_text(page([], schedule=shown, title=title), encoding="utf-8")


def show(tree: Any) -> None:
    """The tree, then the answer and its score; what the search did goes to stderr."""
    from rich.console import Console
    from rich.text import Text

    from leapdecode.plain import escape
    from leapdecode.reasoning.draw import counts_text, score_text, terminal

    console = Console(highlight=False)
    console.print(terminal(tree))
    console.print(Text("answer: ", style="bold").append(escape(tree.answer), style="not bold"))
    console.print(Text(f"score: {score_text(tree)}"))
    Console(stderr=True, highlight=False).print(Text(counts_text(tree)), style="dim")


@contextmanager
def progress() -> Iterator[Callable[[Any], None] | None]:
    """A function that tells how far a tree has grown, on stderr where that is a terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield None
        return
    with console.status("searching") as status:

        def tell(tree: Any) -> None:
            counts = tree.counts
            status.update(f"{counts.thoughts} thoughts, {counts.evaluations} evaluations")

        yield tell
