"""One question by a chain of thought: whole, cut after some iterations, or read off a glimpse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leapdecode.errors import OptionError
from leapdecode.methods import find, make
from leapdecode.reasoning.fastcot.glimpse import Glimpse
from leapdecode.reasoning.fastcot.trigger import Trigger
from leapdecode.reasoning.generation import Ask, Generated, Job

if TYPE_CHECKING:
    from leapdecode.methods.base import Method

WINDOW = 16  # guesses of Jacobi decoding where nobody says
WIDEST = 31  # and at most, where the window adapts


@dataclass(frozen=True)
class Plan:
    """How questions are answered.

    Attributes:
        method: what decodes the rationale; configured, so that its options are known.
        iterations: the rationale is given up after so many forwards; None: never.
        glimpse: whether the approximate tokens stand between the exact ones and the trigger.
        unchanged: give the rationale up when so many readings in a row gave the same answer.
        rationale_tokens, answer_tokens: the most tokens of each.
        stop: strings that end the text.
        read_tokens: the most tokens of an answer that is read beside the rationale.
        budget: tokens that a forward of the rationale may evaluate, as a request's.
        confidence: readings count where the answer's probability is at least this, 0 to 1.
        record: keep the approximate tokens of every iteration.
    """

    method: Method
    iterations: int | None = None
    glimpse: bool = True
    unchanged: int = 0
    rationale_tokens: int = 256
    answer_tokens: int = 24
    stop: tuple[str, ...] = ("\n",)
    read_tokens: int = 8
    budget: int | str | None = None
    confidence: float = 0.0
    record: bool = False

    def __post_init__(self) -> None:
        if self.iterations is not None and self.iterations < 0:
            raise OptionError(
                f"iterations={self.iterations} must be at least 0; 0 asks for the answer at once"
            )
        if not 0 <= self.confidence <= 1:
            raise OptionError(f"confidence={self.confidence} must be from 0 to 1")
        for name in ("unchanged", "rationale_tokens", "answer_tokens", "read_tokens"):
            least = 0 if name == "unchanged" else 1
            if getattr(self, name) < least:
                raise OptionError(f"{name}={getattr(self, name)} must be at least {least}")

    def at(self, iterations: int | None) -> Plan:
        """The same plan with another bound."""
        return replace(self, iterations=iterations)


def plan_of(
    method: str = "jacobi",
    window: int | str = WINDOW,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Plan:
    """A plan with a method of that name, its options, and further settings of the plan.

    Jacobi decoding begins with the question's tokens. Its `window` is a number of guesses, or
    "auto": as many as pay on this machine. Other methods have no such window.

    Raises:
        UnknownName, OptionError: what is wrong with the method, its options or the settings.
    """
    own = dict(options or {})
    if method != "jacobi":
        return Plan(make(method, own), budget=find(method).budget, **settings)
    if window == "auto":
        own, budget = {"window": WIDEST} | own, "auto"
    else:
        own, budget = {"window": window} | own, None
    own = {"initial": "prompt", "refill": "prompt"} | own
    return Plan(make(method, own), budget=budget, **settings)


@dataclass
class Answered:
    """A question's rationale and answer.

    Attributes:
        exact: token ids that the model's own text begins with.
        approximate: token ids that stood behind them when the answer was asked for.
        answer: the text behind the trigger; None where the rationale gave none.
        ended: "stop", "length", "iterations" or "answer": what ended the rationale.
        iterations: forwards of the rationale that gave tokens; `answer_iterations` those of the
            answer.
        history: with `record`, (exact tokens, approximate tokens) before each iteration.
    """

    exact: list[int]
    approximate: list[int]
    answer: str | None
    ended: str
    iterations: int
    answer_iterations: int
    answer_length: int
    history: list[tuple[int, list[int]]] = field(default_factory=list)


def answering(
    prompt: list[int],
    plan: Plan,
    trigger: Trigger,
    ends_answer: Callable[[list[int]], bool],
    stream: Any = 0,
) -> Job[Answered]:
    """A job that answers the question of a prompt, whose token ids are given."""
    method = Glimpse(
        plan.method, trigger, plan.iterations, plan.unchanged, ends_answer, plan.read_tokens,
        plan.confidence, plan.budget, plan.record,
    )  # fmt: skip
    found = yield Ask(
        prompt, ("rationale", stream), "rationale", plan.rationale_tokens, plan.stop, method
    )
    told = found.artifacts
    if found.finish_reason != "aborted":
        said = trigger.behind(found.text)
        if said is not None:
            return _answered(found, [], said, found.finish_reason)
        return (yield from _asked(prompt, found, [], plan, trigger, stream))
    if told["answer"] is not None:
        said = trigger.text(told["answer"])
        return _answered(found, told["approximate"], said, "answer")
    approximate = told["approximate"] if plan.glimpse else []
    return (yield from _asked(prompt, found, approximate, plan, trigger, stream))


def _asked(
    prompt: list[int],
    found: Generated,
    approximate: list[int],
    plan: Plan,
    trigger: Trigger,
    stream: Any,
) -> Job[Answered]:
    """The answer behind the exact and the approximate tokens and the trigger; where the exact ones
    hold the trigger already, what follows.
    """
    said = trigger.behind(found.text)
    behind = prompt + found.token_ids
    if said is None:
        behind = behind + approximate + list(trigger.ids)
    rest = yield Ask(behind, ("answer", stream), "answer", plan.answer_tokens, plan.stop)
    ended = "iterations" if found.finish_reason == "aborted" else found.finish_reason
    if said is not None:
        return _answered(found, [], said + rest.text, ended, rest)
    return _answered(found, approximate, rest.text, ended, rest)


def _answered(
    found: Generated,
    approximate: list[int],
    answer: str,
    ended: str,
    rest: Generated | None = None,
) -> Answered:
    return Answered(
        found.token_ids, approximate, answer.strip(), ended, found.forwards,
        rest.forwards if rest else 0, len(rest.token_ids) if rest else 0,
        list(found.artifacts.get("history", [])),
    )  # fmt: skip
