"""`leapdecode demo`: an offline tour on the embedded pair."""

import os
import shutil
import statistics
import sys
import time
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import print_json, reports_errors
from leapdecode.cli.model_options import Models
from leapdecode.cli.options import JsonOption

TOUR = (
    "jacobi", "prompt_lookup", "lookahead", "draft_model", "multi_candidate", "ouroboros", "auto",
)  # fmt: skip
ROUNDS, SECONDS = 3, 12  # of each prompt: at most so many rounds, and none that would end later


@reports_errors
def demo(
    max_tokens: Annotated[int, typer.Option(min=1, help="most tokens per text")] = 160,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="default: colour on a terminal")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Tour every method on the embedded pair, offline.

    Three held-out prompts that the pair solves, decoded plainly and by every method. Coloured
    tokens were guessed and kept: they cost no forward of their own. Without colour, brackets hold
    the tokens that came in one forward.

    Examples:

      leapdecode demo

      leapdecode demo --no-color --max-tokens 60
    """
    import torch

    from leapdecode.core import SamplingParams

    # on so small a model more threads mostly wait, for each other and for busy neighbours
    torch.set_num_threads(1)
    llm = Models(device="cpu", fallback=False).open(prefix_cache=False)
    sampling = SamplingParams(max_tokens=max_tokens)
    rows = []
    for title, prompt in _prompts():
        rows.append(_compare(llm, title, prompt, sampling))
        if not json:
            _show(rows[-1], color)
    if json:
        print_json({"schema": 1, "model": "demo", "tasks": [_as_dict(row) for row in rows]})
    else:
        _say_next()
    if not all(
        result.token_ids == row["results"][0].token_ids for row in rows for result in row["results"]
    ):
        raise typer.Exit(1)


def _prompts() -> list[tuple[str, str]]:
    from leapdecode.model.embedded import examples

    lines = examples("tour.jsonl").read_text(encoding="utf-8").splitlines()
    shown = [loads(line) for line in lines]
    return [(example["title"], example["prompt"]) for example in shown]


def _compare(llm: Any, title: str, prompt: str, sampling: Any) -> dict[str, Any]:
    """Plain decoding and each method of the tour on one prompt, in turn; times are medians over the
    rounds.

    A progress bar on stderr where that is a terminal.
    """
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import Progress

    for method in ("autoregressive", "auto"):  # the first forwards of a process are slow
        llm.generate(prompt, method=method, sampling=replace(sampling, max_tokens=8))
    methods = ["autoregressive", *TOUR]
    results: list[Any] = [None] * len(methods)
    taken: list[list[float]] = [[] for _ in methods]
    console, started = Console(stderr=True), time.perf_counter()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=ROUNDS * len(methods))
        for done in range(ROUNDS):
            if (time.perf_counter() - started) * (done + 1) > SECONDS * done > 0:
                break
            for number, method in enumerate(methods):
                began = time.perf_counter()
                results[number] = llm.generate(prompt, method=method, sampling=sampling)
                taken[number].append(time.perf_counter() - began)
                progress.advance(bar)
    return {
        "title": title,
        "prompt": prompt,
        "results": results,
        "seconds": [statistics.median(t) for t in taken],
    }


def _as_dict(row: dict[str, Any]) -> dict[str, Any]:
    plain = row["results"][0]
    return {
        "title": row["title"],
        "prompt": row["prompt"],
        "text": plain.text,
        "methods": [
            {
                "method": result.method,
                "options": result.options,
                "identical": result.token_ids == plain.token_ids,
                "seconds": seconds,
                "stats": result.stats.as_dict(),
            }
            for result, seconds in zip(row["results"], row["seconds"], strict=True)
        ],
    }


def _show(row: dict[str, Any], color: bool | None) -> None:
    from rich.console import Console
    from rich.text import Text

    from leapdecode.cli.show import legend, marked_text, pieces_of
    from leapdecode.plain import escape

    console = Console(
        force_terminal=True if color else None,
        no_color=None if color is None else not color,
        highlight=False,
    )
    coloured = color if color is not None else console.is_terminal and not console.no_color
    best = max(row["results"][1:], key=lambda result: result.stats.tokens_per_forward)
    console.rule(Text(f"{row['title']}, by {best.method}"))
    console.print(Text(escape(row["prompt"]), style="dim"), end="", soft_wrap=True)
    console.print(marked_text(pieces_of(best), coloured), soft_wrap=True)
    console.print(legend({s for step in best.steps for s in step.sources}, coloured))
    console.print(_table(row))


def _say_next() -> None:
    here = Path(sys.argv[0])  # of an environment that is not activated
    program = (
        "leapdecode"
        if shutil.which("leapdecode") or here.name != "leapdecode"
        else os.path.relpath(here)
    )
    print(
        "speed: against plain decoding, on this machine and this small model (one to three runs, "
        "their median).\n"
        "The forwards saved are the method's own.\n"
        f"Next: {program} generate 'def fib(n):' --explain\n      {program} methods\n      "
        f"{program} doctor"
    )


def _table(row: dict[str, Any]) -> Any:
    from rich.table import Column, Table

    names = ("tokens", "forwards", "saved", "per forward", "speed", "same")
    columns = [Column(name, justify="right", no_wrap=True) for name in names]
    table = Table(Column("method", no_wrap=True), *columns)
    plain, base = row["results"][0], row["seconds"][0]
    for result, seconds in zip(row["results"], row["seconds"], strict=True):
        stats = result.stats
        saved = 1 - stats.target_forwards / plain.stats.target_forwards
        table.add_row(
            result.method, str(stats.tokens), str(stats.target_forwards), f"{saved:.0%}",
            f"{stats.tokens_per_forward:.2f}", f"{base / seconds:.2f}x",
            "yes" if result.token_ids == plain.token_ids else "NO",
        )  # fmt: skip
    return table
