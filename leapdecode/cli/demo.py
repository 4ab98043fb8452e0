"""`leapdecode demo`: in a few seconds, what the library is for, on the demo pair."""

import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import print_json, reports_errors, waiting
from leapdecode.cli.model_options import Models
from leapdecode.cli.options import TOKENS, JsonOption

METHODS = (
    "autoregressive", "auto", "jacobi", "prompt_lookup", "lookahead", "draft_model",
    "multi_candidate", "ouroboros",
)  # fmt: skip
LABELS = {"autoregressive": "plain decoding", "auto": "auto, the default"}
COUNTED_TOKENS = 60  # most tokens of a text that is counted and not shown
PROMPT_LINES = 4  # the last ones of a prompt, which are shown
INTRODUCTION = (
    "A language model writes one token per forward pass. leapdecode guesses several, verifies all "
    "of them in one forward, and keeps those that the model would have written anyway."
)


@reports_errors
def demo(
    max_tokens: Annotated[int, typer.Option(*TOKENS, min=1, help="most tokens per text")] = 120,
    color: Annotated[
        bool | None, typer.Option("--color/--no-color", help="default: colour on a terminal")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Tour every method on the demo pair, offline.

    A class is written twice, by plain decoding and by `auto`. Coloured tokens were guessed and
    kept: they cost no forward of their own. Without colour, brackets hold the tokens that came in
    one forward. Then all methods write this text and two others.

    Examples:

      leapdecode demo

      leapdecode demo --no-color --max-tokens 60
    """
    from leapdecode.core import SamplingParams

    screen = None if json else Screen(color)
    if screen:
        screen.introduce()
    sampling = SamplingParams(max_tokens=max_tokens)
    counted = SamplingParams(max_tokens=min(max_tokens, COUNTED_TOKENS))
    *others, shown = tasks = _tasks()
    with waiting("loading the demo pair ..."):
        llm = _load()
        # the first forwards of a process are slow, and `auto` learns by them what rows take
        _decode(llm, others[0], METHODS[:2], counted)
    if screen:
        screen.race(llm, shown, sampling)
    with waiting("all methods, on three texts ..."):
        for task in others:
            _decode(llm, task, METHODS[len(task.runs) :], counted)
        _decode(llm, shown, METHODS[len(shown.runs) :], sampling)
    if screen:
        screen.table(tasks)
        screen.next_commands()
    else:
        print_json({"schema": 1, "model": "demo", "tasks": [_as_dict(task) for task in tasks]})
    if not all(task.same(result) for task in tasks for result, _ in task.runs):
        raise typer.Exit(1)


@dataclass
class Task:
    """A text to decode.

    Attributes:
        runs: by method, in the order of `METHODS`: the result, and the seconds that it took.
    """

    title: str
    prompt: str
    runs: list[tuple[Any, float]] = field(default_factory=list)

    def same(self, result: Any) -> bool:
        """Whether a text is plain decoding's."""
        plain, _ = self.runs[0]
        return bool(result.token_ids == plain.token_ids)


def _tasks() -> list[Task]:
    from leapdecode.model.embedded import examples

    lines = examples("tour.jsonl").read_text(encoding="utf-8").splitlines()
    return [Task(**loads(line)) for line in lines]


def _load() -> Any:
    import torch

    # on so small a model more threads mostly wait, for each other and for busy neighbours
    torch.set_num_threads(1)
    return Models(device="cpu", fallback=False).open(prefix_cache=False)


def _decode(
    llm: Any, task: Task, methods: Iterable[str], sampling: Any, on_step: Any = None
) -> None:
    for method in methods:
        began = time.perf_counter()
        result = llm.generate(task.prompt, method=method, sampling=sampling, on_step=on_step)
        task.runs.append((result, time.perf_counter() - began))


def _as_dict(task: Task) -> dict[str, Any]:
    plain, _ = task.runs[0]
    return {
        "title": task.title,
        "prompt": task.prompt,
        "text": plain.text,
        "methods": [
            {
                "method": result.method,
                "options": result.options,
                "identical": task.same(result),
                "seconds": seconds,
                "stats": result.stats.as_dict(),
            }
            for result, seconds in task.runs
        ],
    }


def _summary(task: Task) -> str:
    """Of the last run of a text."""
    _, plain_seconds = task.runs[0]
    result, seconds = task.runs[-1]
    stats = result.stats
    counts = f"{stats.tokens} tokens in {stats.num_steps} forwards, {seconds:.2f} seconds"
    if len(task.runs) == 1:
        return counts
    same = "the same text" if task.same(result) else "NOT the same text"
    return f"{counts}: {plain_seconds / seconds:.1f} times as fast, {same}"


class Screen:
    """What a reader sees, on stdout."""

    def __init__(self, color: bool | None) -> None:
        from rich.console import Console

        self.console = Console(
            force_terminal=True if color else None,
            no_color=None if color is None else not color,
            highlight=False,
        )
        terminal = self.console.is_terminal and not self.console.no_color
        self.coloured = terminal if color is None else color

    def introduce(self) -> None:
        self.console.print(INTRODUCTION)
        self.console.print()

    def race(self, llm: Any, task: Task, sampling: Any) -> None:
        """The text by plain decoding, then by `auto`, as it is written."""
        from rich.text import Text

        from leapdecode.cli.show import legend, marked_text
        from leapdecode.plain import escape

        def on_step(_: int, pieces: list[Any]) -> None:
            text = marked_text(pieces, self.coloured)
            self.console.print(text, end="", soft_wrap=True)

        lines = task.prompt.splitlines()
        cut = len(lines) - PROMPT_LINES
        prompt = "\n".join([f"... ({cut} lines)", *lines[-PROMPT_LINES:]])
        for method in METHODS[:2]:
            self.console.rule(Text(LABELS[method]))
            self.console.print(Text(escape(prompt), style="dim"), end="", soft_wrap=True)
            _decode(llm, task, [method], sampling, on_step)
            self.console.print()
            self.console.print(Text(_summary(task), style="bold"))
        result, _ = task.runs[-1]
        sources = {source for step in result.steps for source in step.sources}
        self.console.print(legend(sources, self.coloured))
        self.console.print()

    def table(self, tasks: list[Task]) -> None:
        """Tokens per forward of every method on every text."""
        from rich.table import Column, Table

        names = [*(task.title for task in tasks), "same text"]
        columns = [Column(name, justify="right") for name in names]
        title = "Tokens per forward, by every method"
        table = Table(Column("method", no_wrap=True), *columns, title=title)
        for number, method in enumerate(METHODS):
            results = [task.runs[number][0] for task in tasks]
            same = all(task.same(result) for task, result in zip(tasks, results, strict=True))
            counts = [f"{result.stats.tokens_per_forward:.2f}" for result in results]
            table.add_row(LABELS.get(method, method), *counts, "yes" if same else "NO")
        self.console.print(table)

    def next_commands(self) -> None:
        """Three commands to go on with."""
        here = Path(sys.argv[0])  # of an environment that is not activated
        program = (
            "leapdecode"
            if shutil.which("leapdecode") or here.name != "leapdecode"
            else os.path.relpath(here)
        )
        lines = (
            "",
            "Now with a model of your own: MODEL is a Hugging Face name, a folder or a GGUF file.",
            f'  {program} generate "def fib(n):" -m MODEL --explain',
            f"  {program} chat -m MODEL",
            f"  {program} serve -m MODEL",
        )
        self.console.print("\n".join(lines), markup=False, soft_wrap=True)
