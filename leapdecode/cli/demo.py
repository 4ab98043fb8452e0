"""`leapdecode demo`: an offline tour on the embedded pair."""

import statistics
import time
from typing import Annotated, Any

import typer

from leapdecode.cli.common import JsonOption, open_llm, print_json, reports_errors

TOUR: list[tuple[str, dict[str, Any]]] = [("jacobi", {}), ("prompt_lookup", {}), ("lookahead", {})]
REPEATS = 3


@reports_errors
def demo(
    max_tokens: Annotated[int, typer.Option(min=1, help="most tokens per text")] = 120,
    color: Annotated[bool | None, typer.Option("--color/--no-color", help="default: on a terminal")] = None,
    json: JsonOption = False,
) -> None:
    """Decode two held-out prompts plainly and by every method, with the embedded pair; no download, no network.

    Coloured (or bracketed) tokens were guessed and kept: they cost no forward of their own.

    Examples:

      leapdecode demo

      leapdecode demo --no-color --max-tokens 60
    """
    import torch

    from leapdecode.core import SamplingParams

    torch.set_num_threads(min(2, torch.get_num_threads()))  # more threads only wait for each other on so small a model
    llm = open_llm("demo", None, "cpu", "auto", "auto", False, False)
    sampling = SamplingParams(max_tokens=max_tokens)
    rows = [_compare(llm, title, prompt, sampling) for title, prompt in _prompts()]
    if json:
        print_json({"schema": 1, "model": "demo", "tasks": [_as_dict(row) for row in rows]})
    else:
        _show(rows, color)
    if not all(result.token_ids == row["results"][0].token_ids for row in rows for result in row["results"]):
        raise typer.Exit(1)


def _prompts() -> list[tuple[str, str]]:
    from leapdecode.tasks import code, math

    (problem,) = math.problems(math.HELD_OUT, 1, seed=2)
    return [("a word problem", problem.prompt), ("Python source", code.prompts(1, seed=3)[0])]


def _compare(llm: Any, title: str, prompt: str, sampling: Any) -> dict[str, Any]:
    """Plain decoding and each method of the tour on one prompt, in turn; times are medians over `REPEATS` rounds."""
    from dataclasses import replace

    llm.generate(prompt, method="autoregressive", sampling=replace(sampling, max_tokens=8))
    methods = [("autoregressive", {}), *TOUR]
    results: list[Any] = [None] * len(methods)
    taken: list[list[float]] = [[] for _ in methods]
    for _ in range(REPEATS):
        for number, (method, options) in enumerate(methods):
            began = time.perf_counter()
            results[number] = llm.generate(prompt, method=method, sampling=sampling, **options)
            taken[number].append(time.perf_counter() - began)
    return {"title": title, "prompt": prompt, "results": results, "seconds": [statistics.median(t) for t in taken]}


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


def _show(rows: list[dict[str, Any]], color: bool | None) -> None:
    from rich.console import Console
    from rich.text import Text

    from leapdecode.cli.show import escape, legend, marked_text, pieces_of

    console = Console(
        force_terminal=True if color else None, no_color=None if color is None else not color, highlight=False
    )
    coloured = color if color is not None else console.is_terminal and not console.no_color
    for row in rows:
        best = max(row["results"][1:], key=lambda result: result.stats.tokens_per_forward)
        console.rule(Text(f"{row['title']}, by {best.method}"))
        console.print(Text(escape(row["prompt"]), style="dim"), end="", soft_wrap=True)
        console.print(marked_text(pieces_of(best), coloured), soft_wrap=True)
        console.print(legend({s for step in best.steps for s in step.sources}, coloured))
        console.print(_table(row))
    console.print(
        Text(
            "This machine and this small model decide the time; the forwards saved are the method's.\n"
            "Next: leapdecode generate 'def fib(n):' --explain    leapdecode methods    leapdecode doctor"
        ),
        soft_wrap=True,
    )


def _table(row: dict[str, Any]) -> Any:
    from rich.table import Column, Table

    table = Table(Column("method", no_wrap=True), "tokens", "forwards", "saved", "per forward", "time", "identical")
    plain, base = row["results"][0], row["seconds"][0]
    for result, seconds in zip(row["results"], row["seconds"], strict=True):
        stats = result.stats
        saved = 1 - stats.target_forwards / plain.stats.target_forwards
        table.add_row(
            result.method, str(stats.tokens), str(stats.target_forwards), f"{saved:.0%}",
            f"{stats.tokens_per_forward:.2f}", f"{seconds / base:.2f}x",
            "yes" if result.token_ids == plain.token_ids else "NO",
        )  # fmt: skip
    return table
