"""Answers to many questions on one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from leapdecode.core import SamplingParams
from leapdecode.reasoning.execution import Executor
from leapdecode.reasoning.fastcot.answering import Answered, Plan, Said, answering, asking
from leapdecode.reasoning.fastcot.questions import SEPARATOR
from leapdecode.reasoning.fastcot.trigger import WORDS, Trigger, trigger_of

if TYPE_CHECKING:
    from leapdecode.llm import LLM


class Answerer:
    """Answers questions of a model.

    Args:
        llm: the model.
        batch_size: questions at a time.
        words: the answer trigger.
        sampling: greedy by default, as in the paper.

    Attributes:
        driver: what has the texts generated; its `record` tells of each.
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
        ends, context = ends_of(self.trigger, plan.stop), self.llm.runner.max_length
        questions = self.encode([question_of(text) for text in prompts])
        pairs = zip(self.encode(prompts), questions, strict=True)
        return self.driver.run(
            [
                answering(prompt, plan, self.trigger, ends, context, number, question)
                for number, (prompt, question) in enumerate(pairs)
            ]
        )

    def ask(
        self, rationales: Sequence[tuple[list[int], list[int], list[int]]], plan: Plan
    ) -> list[Said]:
        """The answers behind (prompt, exact tokens, approximate tokens), all token ids."""
        context = self.llm.runner.max_length
        return self.driver.run(
            [
                asking(prompt, exact, approximate, plan, self.trigger, context, number)
                for number, (prompt, exact, approximate) in enumerate(rationales)
            ]
        )

    def encode(self, prompts: Sequence[str]) -> list[list[int]]:
        """The prompts as token ids."""
        from leapdecode.llm.prompts import encode

        return [encode(text, self.llm.tokenizer, self.llm.runner.vocabulary) for text in prompts]


def question_of(prompt: str) -> str:
    """What stands behind worked examples, which end with an empty line."""
    return prompt.rpartition(SEPARATOR * 2)[2] or prompt


def ends_of(trigger: Trigger, stop: Sequence[str]) -> Callable[[list[int]], bool]:
    """Whether an answer's tokens end with a stop string, or with the end of a text."""

    def ends(tokens: list[int]) -> bool:
        text = trigger.tokenizer.decode(tokens)
        return tokens[-1] in trigger.special or any(one in text for one in stop)

    return ends
