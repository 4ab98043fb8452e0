"""Answers behind a whole rationale, behind a part of one, or behind a part and a glimpse (FastCoT,
4.3): exact tokens, approximate tokens, the answer trigger, then the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError, PromptError
from leapdecode.methods import find, make
from leapdecode.methods.jacobi import Jacobi
from leapdecode.reasoning.execution import Executor
from leapdecode.reasoning.fastcot.glimpse import Glimpse, QuestionJacobi
from leapdecode.reasoning.fastcot.questions import SEPARATOR
from leapdecode.reasoning.fastcot.trigger import LINE_END, WORDS, Trigger, trigger_of
from leapdecode.reasoning.jobs import Ask, Job

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode.methods.base import Method

WINDOW = 16  # default guesses of Jacobi decoding
MAX_WINDOW = 31  # where the window adapts


@dataclass(frozen=True)
class Plan:
    """How questions are answered.

    Attributes:
        method: what decodes the rationale; configured, so that its options are known.
        iterations: the rationale is given up after so many forwards; None: never.
        glimpse: whether the approximate tokens stand between the exact ones and the trigger.
        unchanged: give the rationale up when so many readings in a row gave the same answer.
        rationale_tokens, answer_tokens: the most tokens of each; of an answer that the rationale
            itself says, too.
        stop: strings that end the rationale. An answer ends with its line, too.
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
    stop: tuple[str, ...] = (LINE_END,)
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
        if not all(self.stop):
            raise OptionError("stop holds an empty string; a rationale would end before it begins")
        for name in ("unchanged", "rationale_tokens", "answer_tokens", "read_tokens"):
            least = 0 if name == "unchanged" else 1
            if getattr(self, name) < least:
                raise OptionError(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def window(self) -> int:
        """Guesses that stand behind the text; 0 where the method has no such window."""
        return self.method.window if isinstance(self.method, Jacobi) else 0

    @property
    def answer_stop(self) -> tuple[str, ...]:
        """Strings that end an answer."""
        return tuple(dict.fromkeys((LINE_END, *self.stop)))

    def at(self, iterations: int | None) -> Plan:
        """The same plan with another bound."""
        return replace(self, iterations=iterations)

    def decoder(
        self,
        trigger: Trigger,
        ends_answer: Callable[[list[int]], bool],
        question: Sequence[int] = (),
    ) -> Method:
        """What decodes the rationale: the method itself where its guesses are not needed."""
        method = self.method
        if isinstance(method, QuestionJacobi):
            method = replace(method, question=list(question))
        needs_guesses = self.iterations is not None or self.unchanged or self.record
        if not needs_guesses and self.budget == method.budget:
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
    options = dict(options or {})
    if method != "jacobi":
        return Plan(make(method, options), budget=find(method).budget, **settings)
    adapts = window == "auto"
    defaults = {
        "window": MAX_WINDOW if adapts else window,
        "initial": "prompt",
        "refill": "prompt",
    }
    jacobi = make(method, defaults | options)
    values = {option.name: getattr(jacobi, option.name) for option in jacobi.options()}
    return Plan(QuestionJacobi(**values), budget="auto" if adapts else None, **settings)


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
class Reply:
    """An answer behind a rationale.

    Attributes:
        answer: the text behind the trigger; None where there is none.
        approximate: the tokens that stood before the trigger; none where the exact ones hold it.
        iterations: forwards that gave tokens, `length` how many tokens.
    """

    answer: str | None
    approximate: list[int]
    iterations: int = 0
    length: int = 0


class Answerer:
    """Answers many questions on one engine.

    Args:
        llm: the model.
        batch_size: questions at a time.
        words: the answer trigger.
        sampling: greedy by default, as in the paper.

    Attributes:
        driver: generates the texts; its `record` has them all.
    """

    def __init__(
        self,
        llm: LLM,
        batch_size: int = 1,
        words: str = WORDS,
        sampling: SamplingParams | None = None,
    ) -> None:
        self.llm = llm
        self.trigger: Trigger = trigger_of(llm.tokenizer, words)
        self.driver = Executor(llm, sampling or SamplingParams(), "batched", batch_size=batch_size)

    def run(self, prompts: Sequence[str], plan: Plan) -> list[Answered]:
        """Answers in the order of the prompts, each up to where its answer begins.

        Raises:
            PromptError: an empty prompt, or one that does not fit the model with its window.
        """
        ends_answer = ends_of(self.trigger, plan.answer_stop)
        context = self.llm.runner.max_length
        questions = self.encode([last_question(prompt) for prompt in prompts])
        pairs = zip(self.encode(prompts), questions, strict=True)
        return self.driver.run(
            [
                answer_question(prompt, plan, self.trigger, ends_answer, context, number, question)
                for number, (prompt, question) in enumerate(pairs)
            ]
        )

    def ask(
        self, rationales: Sequence[tuple[list[int], list[int], list[int]]], plan: Plan
    ) -> list[Reply]:
        """The answers behind (prompt, exact tokens, approximate tokens), all token ids."""
        context = self.llm.runner.max_length
        return self.driver.run(
            [
                ask_answer(prompt, exact, approximate, plan, self.trigger, context, number)
                for number, (prompt, exact, approximate) in enumerate(rationales)
            ]
        )

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """The prompts as token ids."""
        from leapdecode.llm.prompts import encode

        return [encode(text, self.llm.tokenizer, self.llm.runner.vocabulary) for text in prompts]


def answer_question(
    prompt: list[int],
    plan: Plan,
    trigger: Trigger,
    ends_answer: Callable[[list[int]], bool],
    context: int,
    stream: Any = 0,
    question: Sequence[int] = (),
) -> Job[Answered]:
    """A job that answers the question of a prompt (token ids); `context` is how many fit.

    The rationale is decoded until it ends or `Glimpse` gives it up. Then the answer is the one that
    was read beside it, or the one that its text says, or it is asked for.
    """
    max_tokens = rationale_limit(prompt, plan, trigger, context)
    decoder = plan.decoder(trigger, ends_answer, question)
    rationale = yield Ask(
        prompt, ("rationale", stream), "rationale", max_tokens, plan.stop, decoder,
        ends=ends_behind(trigger, plan.answer_tokens),
    )  # fmt: skip
    exact = rationale.token_ids
    glimpse = rationale.artifacts
    given_up = rationale.finish_reason == "aborted"
    ended = "iterations" if given_up else rationale.finish_reason
    answer_text = None if given_up else trigger.text_behind(rationale.text)
    if given_up and glimpse["answer"] is not None:
        ended = "answer"
        exact = exact[: glimpse["num_exact"]]
        reply = Reply(_first_line(trigger.text(glimpse["answer"])), glimpse["approximate"])
    elif answer_text is not None:
        reply = Reply(_first_line(answer_text), [])
    else:
        approximate = glimpse["approximate"] if given_up and plan.glimpse else []
        text = trigger.cut_at_end(exact, plan.stop)
        reply = yield from ask_answer(prompt, text, approximate, plan, trigger, context, stream)
    return Answered(
        exact, reply.approximate, reply.answer, ended, rationale.forwards, reply.iterations,
        len(rationale.token_ids), reply.length, list(glimpse.get("history", [])),
    )  # fmt: skip


def ask_answer(
    prompt: list[int],
    exact: list[int],
    approximate: list[int],
    plan: Plan,
    trigger: Trigger,
    context: int,
    stream: Any = 0,
) -> Job[Reply]:
    """A job that asks for the answer behind the exact tokens of a rationale, the approximate ones
    (as many as fit) and the trigger, which is never said twice: where the exact ones hold it, their
    text goes on; where they only begin it, it begins there.
    """
    answer_text = trigger.text_behind(trigger.text(exact))
    if answer_text is not None and LINE_END in answer_text:
        return Reply(_first_line(answer_text), [])
    prompt_ids = prompt + exact
    shown = list[int]()
    if answer_text is None:
        start = trigger.find_start(exact, approximate)
        if start is not None:
            prompt_ids = prompt + exact[:start]
            approximate = []
        room = context - len(prompt_ids) - len(trigger.ids) - plan.answer_tokens
        shown = approximate[: max(room, 0)]
        prompt_ids = prompt_ids + shown + list(trigger.ids)
    rest = yield Ask(prompt_ids, ("answer", stream), "answer", plan.answer_tokens, plan.answer_stop)
    answer = _first_line((answer_text or "") + rest.text)
    return Reply(answer, shown, rest.forwards, len(rest.token_ids))


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


def last_question(prompt: str) -> str:
    """What stands behind the worked examples of a prompt, which end with an empty line."""
    return prompt.rpartition(SEPARATOR * 2)[2] or prompt


def ends_of(trigger: Trigger, stop: Sequence[str]) -> Callable[[list[int]], bool]:
    """Whether an answer's tokens end with a stop string, or with the end of a text."""

    def ends(tokens: list[int]) -> bool:
        text = trigger.tokenizer.decode(tokens)
        return tokens[-1] in trigger.special_ids or any(string in text for string in stop)

    return ends


def ends_behind(trigger: Trigger, most: int) -> Callable[[Sequence[int]], bool]:
    """Whether a rationale, called with its tokens after each of them, has said the trigger and
    `most` tokens behind it: an answer is no longer, though the model may go on in its line.
    """
    reach = len(trigger.ids) + 2  # the trigger's words may be cut into tokens in other ways
    begins: int | None = None

    def ends(tokens: Sequence[int]) -> bool:
        nonlocal begins
        if begins is None and trigger.find(tokens[-reach:]) is not None:
            begins = len(tokens)
        return begins is not None and len(tokens) - begins >= most

    return ends


def _first_line(text: str) -> str | None:
    """An answer without what a text says behind it; None where it says nothing."""
    return text.partition(LINE_END)[0].strip() or None
