"""How many iterations a rationale needs (FastCoT, 4.4): the least bound on a subset of questions
whose answers stay as right as those behind whole rationales.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leapdecode.errors import OptionError
from leapdecode.reasoning.fastcot.answer import Answerer
from leapdecode.reasoning.fastcot.answering import Answered, Plan
from leapdecode.reasoning.fastcot.questions import Asked


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
            most `max_loss` below that of whole rationales.
        loss: how far below it is at that bound, as a share of the questions; below 0 it is better.
        accuracy: behind whole rationales.
        questions: how many were asked.
        curve: one point per bound that was tried, the last one behind whole rationales.
    """

    iterations: int
    loss: float
    max_loss: float
    accuracy: float
    questions: int
    curve: list[Point]

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> "Calibration":
        """A calibration from the dictionary that `asdict` makes of one."""
        return cls(**{**found, "curve": [Point(**point) for point in found["curve"]]})


def calibrate(
    answerer: Answerer, asked: Sequence[Asked], plan: Plan, max_loss: float, step: int = 1
) -> Calibration:
    """The bound of a plan by these questions, tried at every `step`-th number of iterations.

    Raises:
        OptionError: a loss that is no share, a step below 1, or questions that cannot be scored.
    """
    check_loss(max_loss)
    curve = accuracies(answerer, asked, plan, step)
    found = least_bound(curve, max_loss)
    whole = curve[-1].accuracy
    return Calibration(found.iterations, whole - found.accuracy, max_loss, whole, len(asked), curve)


def accuracies(
    answerer: Answerer, asked: Sequence[Asked], plan: Plan, step: int = 1
) -> list[Point]:
    """Accuracy against iterations (FastCoT, Figure 6), up to the longest rationale's.

    Every question is decoded once; the answers are then asked for behind what the rationale was
    after each number of iterations.
    """
    check_step(step)
    if not asked or any(one.score is None for one in asked):
        raise OptionError("a bound is calibrated on questions whose answers can be scored")
    whole = replace(plan, iterations=None, unchanged=0, record=True)
    done = answerer.run([one.prompt for one in asked], whole)
    longest = max(len(one.history) for one in done)
    prompts = answerer.encode([one.prompt for one in asked])
    points = []
    for bound in [*range(0, longest, step), longest]:
        cut = [number for number, one in enumerate(done) if bound < len(one.history)]
        asks = [(prompts[number], *shown(done[number], bound, plan)) for number in cut]
        said = {
            number: one.answer for number, one in zip(cut, answerer.ask(asks, plan), strict=True)
        }
        answers = [said.get(number, one.answer) for number, one in enumerate(done)]
        points.append(_point(bound, asked, answers, [shown(one, bound, plan) for one in done], cut))
    return points


def shown(done: Answered, bound: int, plan: Plan) -> tuple[list[int], list[int]]:
    """Exact and approximate tokens after so many iterations of a rationale that was recorded."""
    if bound >= len(done.history):
        return done.exact, []
    size, approximate = done.history[bound]
    return done.exact[:size], approximate if plan.glimpse else []


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


def score(asked: Asked, answer: str | None) -> float:
    """How right an answer is, from 0 to 1."""
    return 0.0 if asked.score is None else asked.score(answer or "")


def _point(
    bound: int,
    asked: Sequence[Asked],
    answers: Sequence[str | None],
    tokens: Sequence[tuple[list[int], list[int]]],
    cut: Sequence[int],
) -> Point:
    count = len(asked)
    right = sum(score(one, answer) for one, answer in zip(asked, answers, strict=True))
    exact, approximate = (sum(len(one[part]) for one in tokens) / count for part in (0, 1))
    return Point(bound, right / count, exact, approximate, 1 - len(cut) / count)
