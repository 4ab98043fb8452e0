"""`leapdecode fastcot`: answers from a glimpse of a rationale."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from leapdecode.cli.commands import Commands
from leapdecode.cli.common import (
    checked_example,
    counting_progress,
    print_json,
    read_prompt,
    reports_errors,
)
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import TOKENS, JsonOption, OptionOption, parse_options
from leapdecode.errors import OptionError

T = TypeVar("T", int, float)
SAYING = "So the answer is"  # the answer trigger of the paper
RATIONALE_TOKENS = 256

TaskOption = Annotated[
    str, typer.Option(help="math, choice, or a .jsonl file of questions", metavar="TASK|FILE")
]
ShotsOption = Annotated[
    int | None,
    typer.Option(
        help="worked examples before the question; default: 4, of a public set as many as its "
        "paper shows"
    ),
]
MaxTokensOption = Annotated[int, typer.Option(*TOKENS, help="most tokens of the rationale")]
EndOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="TEXT",
        help="the rationale ends before this; may be repeated; default: the end of its line, of a "
        "public set the set's",
    ),
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto",
        help="guesses of jacobi; auto: as many as pay on this machine; default: 16",
    ),
]
DecodedByOption = Annotated[
    str, typer.Option(help="what decodes the rationale; its pending guesses are the glimpse")
]
TriggerOption = Annotated[str, typer.Option(help="the words behind which the answer stands")]
MaxLossOption = Annotated[
    float, typer.Option(help="accuracy that may be lost, as a share: 0.03 is 3 points")
]
BatchSizeOption = Annotated[int, typer.Option(min=1, help="questions answered at a time")]
StepOption = Annotated[
    int, typer.Option(help="ask for answers after every so many iterations when calibrating")
]
ENDED = {
    "stop": "the rationale ended by itself",
    "length": "the rationale was cut at its most tokens",
    "iterations": "given up at the bound",
    "answer": "given up, as the answer stayed the same",
}
MARKS = ("\u27e6~", "~\u27e7")  # round approximate tokens

fastcot = Commands(
    name="fastcot",
    help="Answer from a glimpse of a rationale, before all of it is written (lossy by design).",
)


@fastcot.callback()
def group() -> None:
    """Answer from a glimpse of a rationale, before all of it is written (lossy by design)."""


@fastcot.command()
@reports_errors
@takes_model("fallback")
def answer(
    question: Annotated[
        str | None, typer.Argument(help="the question; - reads stdin; or name an --example")
    ] = None,
    task: TaskOption = "math",
    example: Annotated[
        int | None,
        typer.Option(metavar="N", help="take the task's held-out question N, from 0 on; it scores"),
    ] = None,
    shots: ShotsOption = None,
    method: DecodedByOption = "jacobi",
    option: OptionOption = None,
    window: WindowOption = None,
    iterations: Annotated[
        int | None,
        typer.Option(help="forwards of the rationale; 0 asks at once; default: to its end"),
    ] = None,
    unchanged: Annotated[
        int, typer.Option(help="end the rationale when so many readings gave one answer; 0: never")
    ] = 0,
    confidence: Annotated[
        float, typer.Option(help="a reading counts where its probability is at least this")
    ] = 0.0,
    trigger: TriggerOption = SAYING,
    max_tokens: MaxTokensOption = RATIONALE_TOKENS,
    stop: EndOption = None,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Answer a question behind a part of its rationale and a glimpse of the rest.

    The exact part of the rationale goes to stdout, then the approximate tokens between marks and
    in colour, then the answer. Decoding is greedy. Without --iterations and --unchanged the
    rationale is written to its end. A question of your own has no score.

    Examples:

      leapdecode fastcot answer --example 0 --iterations 12

      leapdecode fastcot answer "Tom has 3 bags of 8 pens. How many are that?" --unchanged 2

      leapdecode fastcot answer --task choice --example 1 --method auto --iterations 6 --json
    """
    from leapdecode.reasoning.fastcot import Answerer

    source = source_of(task)
    plan = plan_given(
        method, window, option, iterations=iterations, unchanged=unchanged, confidence=confidence,
        rationale_tokens=max_tokens, stop=stop_of(source, stop),
    )  # fmt: skip
    problem = _problem(question, source, example, shots_of(source, shots))
    models.check_drafts([method])
    llm = models.open()
    answerer = Answerer(llm, words=trigger)
    (result,) = answerer.run([problem.prompt], plan)
    if json:
        print_json(document(llm, problem, plan, result, answerer))
    else:
        show(problem, result, answerer.trigger)


def _problem(question: str | None, source: Any, example: int | None, shots: int) -> Any:
    """The question that was typed, or one of the source's own."""
    if (question is None) == (example is None):
        raise OptionError("give a question or --example N, one of the two")
    if question is not None:
        return source.ask(read_prompt(question, "question"), shots)
    number = checked_example(example)
    return source.questions(number + 1, 0, shots)[number]


@fastcot.command()
@reports_errors
@takes_model("fallback")
def calibrate(
    task: TaskOption = "math",
    max_loss: MaxLossOption = 0.03,
    limit: Annotated[int, typer.Option(help="questions to calibrate by")] = 50,
    step: StepOption = 1,
    seed: Annotated[int, typer.Option(help="equal seeds take equal questions")] = 0,
    shots: ShotsOption = None,
    method: DecodedByOption = "jacobi",
    option: OptionOption = None,
    window: WindowOption = None,
    trigger: TriggerOption = SAYING,
    max_tokens: MaxTokensOption = RATIONALE_TOKENS,
    stop: EndOption = None,
    batch_size: BatchSizeOption = 8,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Find the least bound on iterations whose answers stay as right as whole rationales' lead to.

    The questions are those that `fastcot compare` with the same seed leaves for calibration.

    Examples:

      leapdecode fastcot calibrate --task math --max-loss 0.03

      leapdecode fastcot calibrate --task choice --method auto --step 4 --json
    """
    from dataclasses import asdict

    from leapdecode.reasoning.fastcot import Answerer
    from leapdecode.reasoning.fastcot.calibration import calibrate as calibrated
    from leapdecode.reasoning.fastcot.calibration import check_loss, check_step

    source = source_of(task)
    plan = plan_given(
        method, window, option, rationale_tokens=max_tokens, stop=stop_of(source, stop)
    )
    check_loss(max_loss)
    check_step(step)
    shown = shots_of(source, shots)
    questions = source.questions(checked_count("--limit", limit), seed, shown)
    models.check_drafts([method])
    llm = models.open()
    with counting_progress() as progress:
        bar = progress.add_task("calibrating", total=None)
        answerer = Answerer(llm, batch_size, trigger)
        bound = calibrated(
            answerer, questions, plan, max_loss, step,
            lambda done, total: progress.update(bar, completed=done, total=total),
        )  # fmt: skip
    if json:
        print_json({"schema": 1, "task": task, "model": llm.name, "method": method} | asdict(bound))
    else:
        show_calibration(bound)


def plan_given(
    method: str, window: str | None, option: Sequence[str] | None, **settings: Any
) -> Any:
    """The plan of --method, --window and -o; raises user errors."""
    from leapdecode.reasoning.fastcot import plan_of
    from leapdecode.reasoning.fastcot.answering import WINDOW

    options = parse_options(method, list(option or []))
    if method != "jacobi" and window is not None:
        raise OptionError(f"--window is jacobi's; {method} has options of its own (-o)")
    return plan_of(method, WINDOW if window is None else window_of(window), options, **settings)


def window_of(value: str) -> int | str:
    """`--window` as a number or "auto"."""
    if value == "auto":
        return value
    try:
        number = int(value)
    except ValueError:
        raise OptionError(f"--window {value!r} must be a whole number or auto") from None
    if number < 1:
        raise OptionError(f"--window {number} must be at least 1")
    return number


def numbers(option: str, text: str, kind: Callable[[str], T], least: T) -> list[T]:
    """Numbers of an option by comma, each once; raises `OptionError`."""
    try:
        values = [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values or min(values) < least:
        what = "numbers" if kind is float else "whole numbers"
        raise OptionError(f"{option} {text!r} must be {what} of at least {least}, by comma")
    return list(dict.fromkeys(values))


def source_of(task: str) -> Any:
    """Where questions come from; raises user errors."""
    from leapdecode.reasoning.fastcot import find

    return find(task)


def shots_of(source: Any, shots: int | None) -> int:
    """How many worked examples stand before a question of a source; raises user errors."""
    if shots is not None and shots < 0:
        raise OptionError(f"--shots {shots} must be at least 0")
    return int(source.shots if shots is None else shots)


def stop_of(source: Any, stop: Sequence[str] | None) -> tuple[str, ...]:
    """The strings that end a rationale of a source."""
    return tuple(stop or source.stop)


def checked_count(option: str, count: int) -> int:
    """A number of questions; raises `OptionError` below 1."""
    if count < 1:
        raise OptionError(f"{option} {count} must be at least 1")
    return count


def show(problem: Any, result: Any, trigger: Any) -> None:
    """Print exact part, approximate tokens, answer and score; counts go to stderr."""
    from rich.console import Console
    from rich.text import Text

    from leapdecode.plain import escape
    from leapdecode.reasoning.fastcot.calibration import score

    console = Console(highlight=False)
    shown = Text(escape(trigger.text(result.exact).strip()))
    if result.approximate:
        inside = escape(trigger.text(result.approximate).strip())
        shown.append(" ").append(f"{MARKS[0]}{inside}{MARKS[1]}", style="magenta italic")
    console.print(shown if shown else Text("(no rationale)", style="dim"), soft_wrap=True)
    answer = "none" if result.answer is None else escape(result.answer)
    console.print(Text("answer: ", style="bold").append(answer, style="not bold"))
    if problem.score is not None:
        console.print(Text(f"score: {score(problem, result.answer):.4g}"))
    Console(stderr=True, highlight=False).print(
        Text(summary_line(result)), style="dim", soft_wrap=True
    )


def summary_line(result: Any) -> str:
    """Counts of tokens and iterations in one line."""
    return (
        f"{len(result.exact)} exact and {len(result.approximate)} approximate tokens after "
        f"{result.iterations} iterations ({ENDED[result.ended]}), then {result.answer_iterations} "
        "of the answer"
    )


def document(llm: Any, problem: Any, plan: Any, result: Any, answerer: Any) -> dict[str, Any]:
    """What `answer --json` prints."""
    from leapdecode.reasoning.fastcot.calibration import score

    trigger = answerer.trigger
    return {
        "schema": 1,
        "model": llm.name,
        "method": plan.method.name,
        "question": problem.question,
        "prompt_token_ids": answerer.driver.record.results[0].prompt_token_ids,
        "exact": {"token_ids": result.exact, "text": trigger.text(result.exact)},
        "approximate": {"token_ids": result.approximate, "text": trigger.text(result.approximate)},
        "trigger": trigger.words,
        "answer": result.answer,
        "score": None if problem.score is None else score(problem, result.answer),
        "ended": result.ended,
        "iterations": result.iterations,
        "answer_iterations": result.answer_iterations,
    }


def show_calibration(bound: Any) -> None:
    """The curve, and the bound."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for name in ("iterations", "accuracy", "exact", "approximate", "ended"):
        table.add_column(name, justify="right")
    for point in bound.curve:
        mark = " *" if point.iterations == bound.iterations else "  "
        table.add_row(
            f"{point.iterations}{mark}", f"{100 * point.accuracy:.1f}%", f"{point.exact:.1f}",
            f"{point.approximate:.1f}", f"{100 * point.ended:.0f}%",
        )  # fmt: skip
    console = Console(highlight=False)
    console.print(table)
    console.print(Text(bound_text(bound)), soft_wrap=True)


def bound_text(bound: Any) -> str:
    """The bound in one line."""
    return (
        f"* {bound.iterations} iterations: from there on a loss of at most "
        f"{100 * bound.max_loss:.4g} points on {bound.questions} questions; there "
        f"{100 * bound.loss:.4g}"
    )
