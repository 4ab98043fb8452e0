"""Answers to many questions on one engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from leapdecode.core import SamplingParams
from leapdecode.llm.prompts import encode
from leapdecode.reasoning.execution import Executor
from leapdecode.reasoning.fastcot.answering import Answered, Plan, answering
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
        ends = ends_of(self.trigger, plan.stop)
        ids = [encode(text, self.llm.tokenizer, self.llm.runner.vocabulary) for text in prompts]
        return self.driver.run(
            [answering(one, plan, self.trigger, ends, number) for number, one in enumerate(ids)]
        )


def ends_of(trigger: Trigger, stop: Sequence[str]) -> Callable[[list[int]], bool]:
    """Whether an answer's tokens end with a stop string, or with the end of a text."""
    special = set(getattr(trigger.tokenizer, "all_special_ids", []))

    def ends(tokens: list[int]) -> bool:
        text = trigger.tokenizer.decode(tokens)
        return tokens[-1] in special or any(one in text for one in stop)

    return ends
