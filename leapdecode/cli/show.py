"""How decoded text looks: which tokens came in one forward, and where each was guessed.

With colour a guessed token has its source's colour. Without, tokens of one forward stand in
brackets when there are several of them.
"""

import io
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from leapdecode.llm.result import Piece, Result
from leapdecode.plain import escape
from leapdecode.sources import SOURCES

# of guesses that one method alone makes; then those of all sources
COLOURS = {"ngram": "cyan", "prompt": "green", "second": "bright_blue", "phrase": "yellow"}
COLOURS |= {name: source.colour for name, source in SOURCES.classes.items()}
BRACKETS = ("\u27e6", "\u27e7")
StepCost = Callable[[int, int], float]  # (rows, cached tokens) -> milliseconds of a forward


def styled(piece: Piece) -> Text:
    """One piece in its source's colour; the target's own tokens keep the terminal's."""
    return Text(
        escape(piece.text), style=COLOURS.get(piece.source, "") if piece.source != "target" else ""
    )


def marked_text(pieces: Iterable[Piece], colour: bool) -> Text:
    """All pieces, by step: coloured by source, or with brackets round the steps that gained several
    tokens.
    """
    shown = Text()
    for _, group in groupby(pieces, key=lambda piece: piece.step):
        step = list(group)
        if colour or len(step) == 1:
            for piece in step:
                shown.append_text(styled(piece) if colour else Text(escape(piece.text)))
        else:
            shown.append(BRACKETS[0] + escape("".join(piece.text for piece in step)) + BRACKETS[1])
    return shown


def legend(sources: Iterable[str], colour: bool) -> Text:
    """What the marks mean, for the sources that occurred."""
    if not colour:
        return Text(f"{BRACKETS[0]}...{BRACKETS[1]} = several tokens from one forward")
    shown = Text("guessed by: ")
    for source in sorted(set(sources) - {"target"}):
        shown.append(source, style=COLOURS.get(source, ""))
        shown.append("  ")
    return shown.append("(plain: the model's own next token)", style="dim")


def pieces_of(result: Result) -> list[Piece]:
    """A finished result as the pieces that streaming would have given."""
    pieces: list[Piece] = []
    for number, step in enumerate(result.steps):
        for token, source in zip(step.tokens, step.sources, strict=True):
            text = result.pieces[len(pieces)] if result.pieces else ""
            pieces.append(Piece(text, token, number, source))
    return pieces


def printer(color: bool | None, stream: TextIO | None = None) -> Any:
    """A function that shows a step's pieces: coloured, bracketed, bare where it is no terminal."""
    stream = stream or sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # a terminal that cannot show a character still gets the text
        stream.reconfigure(errors="replace")
    console = Console(
        file=stream,
        force_terminal=True if color else None,
        no_color=None if color is None else not color,
    )
    bare = color is None and not console.is_terminal
    coloured = color if color is not None else not console.no_color

    def show(_: int, pieces: list[Any]) -> None:
        if bare:
            stream.write("".join(piece.text for piece in pieces))
            stream.flush()
        else:
            console.print(marked_text(pieces, coloured), end="", soft_wrap=True)

    return show


def print_summary(result: Any, explain: bool, context: int, cost: StepCost | None = None) -> None:
    """What was decoded, on stderr; `cost` is what forwards take here, where that is known."""
    sys.stdout.write("\n")
    sys.stdout.flush()
    console, stats = Console(stderr=True), result.stats
    full = len(result.prompt_token_ids) + stats.tokens >= context
    if explain:
        explain_steps(console, result, cost)
    speed = f"{stats.tokens_per_second:.0f} tokens/s" if stats.decode_seconds else ""
    prompt = f", {stats.prefill_forwards} more for the prompt" if stats.prefill_forwards else ""
    console.print(
        Text(
            f"{result.method}: {stats.tokens} tokens in {stats.num_steps} forwards "
            f"({stats.tokens_per_forward:.2f} per forward{prompt}), {stats.target_rows} rows, "
            f"{speed}, "
            f"ended by {result.finish_reason}{' (the context is full)' if full else ''}"
            f"{', exact' if result.exact else ''}"
        ),
        style="dim",
    )
    if sys.stdout.isatty():
        console.print(
            legend(
                {source for step in result.steps for source in step.sources}, not console.no_color
            )
        )
    if result.audit:
        console.print(Text(_verdict(result.audit)))


def _verdict(audit: dict[str, Any]) -> str:
    if audit["identical"]:
        return f"audit: identical to plain decoding: yes ({audit['tokens']} tokens)"
    kind = (
        "explained by a floating-point near-tie"
        if not audit["unexplained"]
        else "UNEXPLAINED: please report it"
    )
    if audit["exact"]:
        kind = "which exact decoding rules out: please report it"
    where = f"first difference at token {audit['first_difference']}"
    return f"audit: identical to plain decoding: no, {where}, {kind}"


def explain_steps(console: Console, result: Any, cost: StepCost | None) -> None:
    """A line per forward, and with a `cost` a line of what each source saved."""
    num_shown = 0
    for number, step in enumerate(result.steps):
        pieces = result.pieces[num_shown : num_shown + len(step.tokens)]
        num_shown += len(step.tokens)
        parts = "  ".join(
            f"'{_shown(piece)}':{source}"
            for piece, source in zip(pieces, step.sources, strict=True)
        )
        offered = sum(step.guesses.values()) + step.cut
        cut = f" {step.cut} cut" if step.cut else ""
        guesses = f"{offered:3d} offered{cut}"
        line = f"{number:4d}  {step.rows:4d} rows  {guesses:16s}  +{len(step.tokens)}  {parts}"
        console.print(Text(line), soft_wrap=True)
    if cost is not None and len(result.steps) > 1:
        console.print(Text(_saved_line(saved_by_source(result, cost))), soft_wrap=True)


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
            added = cost(step.rows, context) - plain
            offered = sum(step.guesses.values())
            for source, nodes in step.guesses.items():
                saved[source] -= added * nodes / offered
            for source in step.sources:
                if source != "target":
                    saved[source] += plain
        context += len(step.tokens)
    return dict(saved)


def _saved_line(saved: dict[str, float]) -> str:
    ordered = sorted(saved.items(), key=lambda item: -item[1])
    parts = [f"{source} {value:+.0f} ms" for source, value in ordered]
    return f"saved against plain forwards: {', '.join(parts) or 'nothing was guessed'}"


def _shown(piece: str) -> str:
    return escape(piece).replace("\n", "\\n")
