"""One question by a chain of thought: whole, cut after some iterations, or read off a glimpse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leapdecode.errors import OptionError, PromptError
from leapdecode.methods import find, make
from leapdecode.methods.jacobi import Jacobi
from leapdecode.reasoning.fastcot.glimpse import Glimpse
from leapdecode.reasoning.fastcot.guesses import QuestionJacobi, with_question
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

    @property
    def window(self) -> int:
        """Guesses that stand behind the text; 0 where the method has no such window."""
        return self.method.window if isinstance(self.method, Jacobi) else 0

    def at(self, iterations: int | None) -> Plan:
        """The same plan with another bound."""
        return replace(self, iterations=iterations)

    def decoder(
        self,
        trigger: Trigger,
        ends_answer: Callable[[list[int]], bool],
        question: Sequence[int] = (),
    ) -> Method:
        """What decodes the rationale: the method itself where nobody looks at its guesses."""
        method = self.method
        if isinstance(method, QuestionJacobi):
            method = replace(method, question=list(question))
        looks = self.iterations is not None or self.unchanged or self.record
        if not looks and self.budget == method.budget:
            return method
        return Glimpse(
            method, trigger, self.iterations, self.unchanged, ends_answer, self.read_tokens,
            self.confidence, self.budget, self.record, self.stop,
        )  # fmt: skip


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
    jacobi = make(method, own)
    assert isinstance(jacobi, Jacobi)
    return Plan(with_question(jacobi), budget=budget, **settings)


@dataclass
class Answered:
    """A question's rationale and answer.

    Attributes:
        exact: token ids that the model's own text begins with, those that the answer stood behind.
        approximate: token ids that stood behind them when the answer was asked for, or read.
        answer: the text behind the trigger; None where there is none.
        ended: "stop", "length", "iterations" or "answer": what ended the rationale.
        iterations: forwards of the rationale that gave tokens; `answer_iterations` those of the
            answer.
        length: tokens that were decoded of the rationale: the exact ones, and those of the forward
            in which the answer was read.
        answer_length: tokens generated for the answer alone.
        history: with `record`, (exact tokens, approximate tokens) before each iteration.
    """

    exact: list[int]
    approximate: list[int]
    answer: str | None
    ended: str
    iterations: int
    answer_iterations: int
    length: int
    answer_length: int
    history: list[tuple[int, list[int]]] = field(default_factory=list)


@dataclass(frozen=True)
class Said:
    """What was answered behind a rationale.

    Attributes:
        answer: the text behind the trigger; None where there is none.
        approximate: the tokens that stood before the trigger; none where the exact ones hold it.
        iterations: forwards that gave tokens, `length` how many tokens.
    """

    answer: str | None
    approximate: list[int]
    iterations: int = 0
    length: int = 0


def answering(
    prompt: list[int],
    plan: Plan,
    trigger: Trigger,
    ends_answer: Callable[[list[int]], bool],
    context: int,
    stream: Any = 0,
    question: Sequence[int] = (),
) -> Job[Answered]:
    """A job that answers the question of a prompt (token ids); `context` is how many fit."""
    most = rationale_limit(prompt, plan, trigger, context)
    method = plan.decoder(trigger, ends_answer, question)
    found = yield Ask(prompt, ("rationale", stream), "rationale", most, plan.stop, method)
    told, gave_up = found.artifacts, found.finish_reason == "aborted"
    history = list(told.get("history", []))
    if gave_up and told["answer"] is not None:
        said = Said(_stripped(trigger.text(told["answer"])), told["approximate"])
        return _answered(found, said, "answer", history, told["behind"])
    answer = None if gave_up else trigger.behind(found.text)
    if answer is not None:
        return _answered(found, Said(_stripped(answer), []), found.finish_reason, history)
    approximate = told["approximate"] if gave_up and plan.glimpse else []
    exact = trigger.before(plan.stop, found.token_ids)
    said = yield from asking(prompt, exact, approximate, plan, trigger, context, stream)
    return _answered(found, said, "iterations" if gave_up else found.finish_reason, history)


def asking(
    prompt: list[int],
    exact: list[int],
    approximate: list[int],
    plan: Plan,
    trigger: Trigger,
    context: int,
    stream: Any = 0,
) -> Job[Said]:
    """A job that asks for the answer behind the exact tokens of a rationale, the approximate ones
    (as many as fit) and the trigger, which is never said twice: where the exact ones hold it, their
    text goes on; where they only begin it, it begins there.
    """
    begun = trigger.behind(trigger.text(exact))
    behind, shown = prompt + exact, list[int]()
    if begun is None:
        if (place := trigger.begun(exact, approximate)) is not None:
            behind, approximate = prompt + exact[:place], []
        room = context - len(behind) - len(trigger.ids) - plan.answer_tokens
        shown = approximate[: max(room, 0)]
        behind = behind + shown + list(trigger.ids)
    rest = yield Ask(behind, ("answer", stream), "answer", plan.answer_tokens, plan.stop)
    answer = _stripped((begun or "") + rest.text)
    return Said(answer, shown, rest.forwards, len(rest.token_ids))


def rationale_limit(prompt: list[int], plan: Plan, trigger: Trigger, context: int) -> int:
    """The most tokens of a rationale that leave room for the window, the trigger and the answer.

    Raises `PromptError` where not even one does.
    """
    rest = len(trigger.ids) + plan.answer_tokens
    room = context - len(prompt) - plan.window - rest
    if room < 1:
        window = f", the window {plan.window}" if plan.window else ""
        raise PromptError(
            f"the prompt has {len(prompt)} tokens{window}, trigger and answer may take {rest}, and "
            f"the model's context holds {context}; shorten the question, show fewer worked "
            f"examples (--shots){', or take a smaller --window' if window else ''}"
        )
    return min(plan.rationale_tokens, room)


def _answered(
    found: Generated,
    said: Said,
    ended: str,
    history: list[tuple[int, list[int]]],
    size: int | None = None,
) -> Answered:
    return Answered(
        found.token_ids[:size], said.approximate, said.answer, ended, found.forwards,
        said.iterations, len(found.token_ids), said.length, history,
    )  # fmt: skip


def _stripped(text: str) -> str | None:
    return text.strip() or None
