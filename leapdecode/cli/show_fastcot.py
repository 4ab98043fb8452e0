"""How answers from a glimpse, bounds and comparisons are shown."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

ENDED = {
    "stop": "the rationale ended by itself",
    "length": "the rationale was cut at its most tokens",
    "iterations": "given up at the bound",
    "answer": "given up, as the answer stayed the same",
}
MARKS = ("\u27e6~", "~\u27e7")  # round approximate tokens


def show(asked: Any, found: Any, trigger: Any) -> None:
    """Exact part, approximate tokens, answer and score; what was done goes to stderr."""
    from rich.console import Console
    from rich.text import Text

    from leapdecode.plain import escape
    from leapdecode.reasoning.fastcot.calibration import score

    console = Console(highlight=False)
    shown = Text(escape(trigger.text(found.exact).strip()))
    if found.approximate:
        inside = escape(trigger.text(found.approximate).strip())
        shown.append(" ").append(f"{MARKS[0]}{inside}{MARKS[1]}", style="magenta italic")
    console.print(shown if shown else Text("(no rationale)", style="dim"), soft_wrap=True)
    answer = "none" if found.answer is None else escape(found.answer)
    console.print(Text("answer: ", style="bold").append(answer, style="not bold"))
    if asked.score is not None:
        console.print(Text(f"score: {score(asked, found.answer):.4g}"))
    Console(stderr=True, highlight=False).print(Text(told(found)), style="dim", soft_wrap=True)


def told(found: Any) -> str:
    """What was done, in one line."""
    return (
        f"{len(found.exact)} exact and {len(found.approximate)} approximate tokens after "
        f"{found.iterations} iterations ({ENDED[found.ended]}), then {found.answer_iterations} "
        "of the answer"
    )


def document(llm: Any, asked: Any, plan: Any, found: Any, answerer: Any) -> dict[str, Any]:
    """What `answer --json` prints."""
    from leapdecode.reasoning.fastcot.calibration import score

    trigger = answerer.trigger
    return {
        "schema": 1,
        "model": llm.name,
        "method": plan.method.name,
        "question": asked.question,
        "prompt_token_ids": answerer.driver.record.results[0].prompt_token_ids,
        "exact": {"token_ids": found.exact, "text": trigger.text(found.exact)},
        "approximate": {"token_ids": found.approximate, "text": trigger.text(found.approximate)},
        "trigger": trigger.words,
        "answer": found.answer,
        "score": None if asked.score is None else score(asked, found.answer),
        "ended": found.ended,
        "iterations": found.iterations,
        "answer_iterations": found.answer_iterations,
    }


def show_calibration(found: Any) -> None:
    """The curve, and the bound."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for name in ("iterations", "accuracy", "exact", "approximate", "ended"):
        table.add_column(name, justify="right")
    for point in found.curve:
        mark = " *" if point.iterations == found.iterations else "  "
        table.add_row(
            f"{point.iterations}{mark}", f"{100 * point.accuracy:.1f}%", f"{point.exact:.1f}",
            f"{point.approximate:.1f}", f"{100 * point.ended:.0f}%",
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(table)
    console.print(Text(bound_text(found)), soft_wrap=True)


def bound_text(found: Any) -> str:
    """The bound in one line."""
    return (
        f"* {found.iterations} iterations: from there on a loss of at most "
        f"{100 * found.max_loss:.4g} points on {found.questions} questions; there "
        f"{100 * found.loss:.4g}"
    )


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A spinner on stderr where that is a terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
