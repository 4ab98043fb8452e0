"""`leapdecode fastcot`: answers from a glimpse of a rationale."""

from typing import Annotated, Any

import typer

from leapdecode.cli.common import JsonOption, check_drafts, print_json, reports_errors
from leapdecode.cli.fastcot_given import (
    SAYING,
    BatchSizeOption,
    DecodedByOption,
    MaxLossOption,
    ShotsOption,
    StepOption,
    TaskOption,
    TriggerOption,
    WindowOption,
    checked_count,
    plan_given,
    source_of,
)
from leapdecode.cli.given import read_prompt
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.errors import OptionError

OptionsOption = Annotated[
    list[str] | None, typer.Option("-o", metavar="KEY=VALUE", help="an option of the method")
]

fastcot = typer.Typer(
    name="fastcot",
    help="Answer from a glimpse of a rationale, before all of it is written (lossy by design).",
    rich_markup_mode=None,
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
    shots: ShotsOption = 4,
    method: DecodedByOption = "jacobi",
    option: OptionsOption = None,
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
    max_tokens: Annotated[int, typer.Option(help="most tokens of the rationale")] = 256,
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
    from leapdecode.cli.show_fastcot import document, show
    from leapdecode.reasoning.fastcot import Answerer

    plan = plan_given(
        method, window, option, iterations=iterations, unchanged=unchanged, confidence=confidence,
        rationale_tokens=max_tokens,
    )  # fmt: skip
    asked = _asked(question, source_of(task, shots), example, shots)
    llm = models.open()
    check_drafts(llm, [method])
    answerer = Answerer(llm, words=trigger)
    (found,) = answerer.run([asked.prompt], plan)
    if json:
        print_json(document(llm, asked, plan, found, answerer))
    else:
        show(asked, found, answerer.trigger)


def _asked(question: str | None, source: Any, example: int | None, shots: int) -> Any:
    """The question that was typed, or one of the source's own."""
    from leapdecode.reasoning.fastcot.questions import check_question

    if (question is None) == (example is None):
        raise OptionError("give a question or --example N, one of the two")
    if question is not None:
        text = read_prompt(question, "question")
        check_question(text)
        return source.ask(text, shots)
    if example is None or example < 0:
        raise OptionError(f"--example {example} must be at least 0")
    return source.questions(example + 1, 0, shots)[example]


@fastcot.command()
@reports_errors
@takes_model("fallback")
def calibrate(
    task: TaskOption = "math",
    max_loss: MaxLossOption = 0.03,
    limit: Annotated[int, typer.Option(help="questions to calibrate by")] = 50,
    step: StepOption = 1,
    seed: Annotated[int, typer.Option(help="equal seeds take equal questions")] = 0,
    shots: ShotsOption = 4,
    method: DecodedByOption = "jacobi",
    option: OptionsOption = None,
    window: WindowOption = None,
    trigger: TriggerOption = SAYING,
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

    from leapdecode.cli.show_fastcot import show_calibration, waiting
    from leapdecode.reasoning.fastcot import Answerer
    from leapdecode.reasoning.fastcot.calibration import calibrate as calibrated
    from leapdecode.reasoning.fastcot.calibration import check_loss, check_step

    plan = plan_given(method, window, option)
    check_loss(max_loss)
    check_step(step)
    questions = source_of(task, shots).questions(checked_count("--limit", limit), seed, shots)
    llm = models.open()
    check_drafts(llm, [method])
    with waiting("calibrating"):
        answerer = Answerer(llm, batch_size, trigger)
        found = calibrated(answerer, questions, plan, max_loss, step)
    if json:
        print_json({"schema": 1, "task": task, "model": llm.name, "method": method} | asdict(found))
    else:
        show_calibration(found)
