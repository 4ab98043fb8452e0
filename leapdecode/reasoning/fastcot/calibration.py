"""How many iterations a rationale needs (FastCoT, 4.4): the least bound on a subset of questions
whose answers stay as right as those behind whole rationales.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leapdecode.errors import OptionError
from leapdecode.reasoning.fastcot.answering import Answered, Answerer, Plan
from leapdecode.reasoning.fastcot.questions import PromptedQuestion


@dataclass(frozen=True)
class Point:
    """Answers after a number of iterations.

    Attributes:
        iterations: forwards of the rationale, at most.
        accuracy: share of the questions that were answered right.
        exact, approximate: mean numbers of tokens that stood before the trigger.
        ended: share of the questions whose rationale had ended by then.
    """

    iterations: int
    accuracy: float
    exact: float
    approximate: float
    ended: float


@dataclass(frozen=True)
class Calibration:
    """A bound and how it was found.

    Attributes:
        iterations: the least bound at which, and at every larger one of the curve, accuracy is at
            most `max_loss` below that of whole rationales. The paper's holds at this number alone.
        loss: how far accuracy at that bound lies below it, as a share of the questions; negative
            where it is better.
        accuracy: behind whole rationales.
        questions: how many were asked.
        curve: a point per bound that was tried, the last one behind whole rationales.
    """

    iterations: int
    loss: float
    max_loss: float
    accuracy: float
    questions: int
    curve: list[Point]

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "Calibration":
        """A calibration from the dictionary that `asdict` makes of it."""
        return cls(**{**document, "curve": [Point(**point) for point in document["curve"]]})


def calibrate(
    answerer: Answerer,
    questions: Sequence[PromptedQuestion],
    plan: Plan,
    max_loss: float,
    step: int = 1,
    on_bound: Callable[[int, int], None] | None = None,
) -> Calibration:
    """The bound of a plan by these questions, tried at every `step`-th number of iterations.
    `on_bound` as in `accuracies`.

    Raises:
        OptionError: a loss that is no share, a step below 1, or questions that cannot be scored.
    """
    check_loss(max_loss)
    curve = accuracies(answerer, questions, plan, step, on_bound)
    bound = least_bound(curve, max_loss)
    accuracy = curve[-1].accuracy
    return Calibration(
        bound.iterations, accuracy - bound.accuracy, max_loss, accuracy, len(questions), curve
    )


def accuracies(
    answerer: Answerer,
    questions: Sequence[PromptedQuestion],
    plan: Plan,
    step: int = 1,
    on_bound: Callable[[int, int], None] | None = None,
) -> list[Point]:
    """Accuracy against iterations (FastCoT, Figure 6), up to the longest rationale's.

    Every question is decoded once; the answers are then asked for behind what the rationale was
    after each number of iterations. `on_bound` is told how many of how many numbers are done.
    """
    check_step(step)
    if not questions or any(question.score is None for question in questions):
        raise OptionError("a bound is calibrated on questions whose answers can be scored")
    prompts = [question.prompt for question in questions]
    prompt_ids = answerer.encode(prompts)
    whole = answerer.run(prompts, replace(plan, iterations=None, unchanged=0, record=True))
    longest = max(len(answered.history) for answered in whole)
    points = []
    bounds = [*range(0, longest, step), longest]
    for bound in bounds:
        shown = [shown_tokens(answered, bound, plan) for answered in whole]
        answers = [answered.answer for answered in whole]
        cut = [number for number, answered in enumerate(whole) if bound < len(answered.history)]
        replies = answerer.ask([(prompt_ids[number], *shown[number]) for number in cut], plan)
        for number, reply in zip(cut, replies, strict=True):
            answers[number] = reply.answer
        count = len(questions)
        points.append(
            Point(
                iterations=bound,
                accuracy=sum(map(score, questions, answers)) / count,
                exact=sum(len(exact) for exact, _ in shown) / count,
                approximate=sum(len(approximate) for _, approximate in shown) / count,
                ended=1 - len(cut) / count,
            )
        )
        if on_bound is not None:
            on_bound(len(points), len(bounds))
    return points


def shown_tokens(answered: Answered, bound: int, plan: Plan) -> tuple[list[int], list[int]]:
    """Exact and approximate tokens after `bound` iterations of a recorded rationale."""
    if bound >= len(answered.history):
        return answered.exact, []
    size, approximate = answered.history[bound]
    return answered.exact[:size], approximate if plan.glimpse else []


def least_bound(curve: Sequence[Point], max_loss: float) -> Point:
    """The first point from which on no accuracy is more than `max_loss` below the last one."""
    least = curve[-1]
    for point in reversed(curve):
        if curve[-1].accuracy - point.accuracy > max_loss + 1e-9:
            break
        least = point
    return least


def check_loss(max_loss: float) -> None:
    """Raise `OptionError` unless a loss is a share of the questions."""
    if not 0 <= max_loss <= 1:
        raise OptionError(f"max_loss={max_loss} must be a share from 0 to 1; 0.03 is 3 points")


def check_step(step: int) -> None:
    """Raise `OptionError` for a step below 1."""
    if step < 1:
        raise OptionError(f"step={step} must be at least 1")


def score(question: PromptedQuestion, answer: str | None) -> float:
    """How right an answer is, from 0 to 1."""
    return 0.0 if question.score is None else question.score(answer or "")
