"""`--explain`: what every forward was offered and gained, and what each source saved in the end."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.text import Text

from leapdecode.plain import escape

StepCost = Callable[[int, int], float]  # (rows, cached tokens) -> milliseconds of a forward


def explain_steps(console: Console, result: Any, cost: StepCost | None) -> None:
    """A line per forward, and with a `cost` a line of what each source saved."""
    num_shown = 0
    for number, step in enumerate(result.steps):
        pieces = result.pieces[num_shown : num_shown + len(step.tokens)]
        num_shown += len(step.tokens)
        told = zip(map(_shown, pieces), step.sources, strict=True)
        parts = "  ".join(f"'{piece}':{source}" for piece, source in told)
        offered, cut = sum(step.guesses.values()) + step.cut, f" {step.cut} cut" if step.cut else ""
        guesses = f"{offered:3d} offered{cut}"
        line = f"{number:4d}  {step.rows:4d} rows  {guesses:16s}  +{len(step.tokens)}  {parts}"
        console.print(Text(line), soft_wrap=True)
    if cost is not None and len(result.steps) > 1:
        console.print(Text(_told(saved_by_source(result, cost))), soft_wrap=True)


def saved_by_source(result: Any, cost: StepCost) -> dict[str, float]:
    """Milliseconds that each source saved: a plain forward for every token of it, less its share of
    the time that guesses added to their forwards.

    The first step's rows are the prompt's, so it does not count.
    """
    saved: dict[str, float] = defaultdict(float)
    context = len(result.prompt_token_ids)
    for number, step in enumerate(result.steps):
        if number:
            plain = cost(1, context)
            added, offered = cost(step.rows, context) - plain, sum(step.guesses.values())
            for source, nodes in step.guesses.items():
                saved[source] -= added * nodes / offered
            for source in step.sources:
                if source != "target":
                    saved[source] += plain
        context += len(step.tokens)
    return dict(saved)


def _told(saved: dict[str, float]) -> str:
    ordered = sorted(saved.items(), key=lambda item: -item[1])
    parts = [f"{source} {value:+.0f} ms" for source, value in ordered]
    return f"saved against plain forwards: {', '.join(parts) or 'nothing was guessed'}"


def _shown(piece: str) -> str:
    return escape(piece).replace("\n", "\\n")
