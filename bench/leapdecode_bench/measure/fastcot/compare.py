"""Ways to answer against each other: every batch of questions is answered in all of them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from leapdecode.reasoning.fastcot.answering import Answerer
from leapdecode.reasoning.fastcot.trigger import WORDS
from leapdecode_bench.measure.contenders import Twins
from leapdecode_bench.measure.fastcot.contenders import Contender
from leapdecode_bench.measure.fastcot.records import BatchRecord, ContenderKey, record_of

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode.reasoning.fastcot.questions import PromptedQuestion, Source


def split_questions(
    source: Source, calibration: int, limit: int, seed: int, shots: int
) -> tuple[list[PromptedQuestion], list[PromptedQuestion]]:
    """Questions to calibrate by, and `limit` others to compare on; the same for the same seed."""
    questions = source.questions(calibration + limit, seed, shots)
    return questions[:calibration], questions[calibration:]


@dataclass
class Comparison:
    """What is compared.

    Attributes:
        contenders: each answers every batch, in an order drawn for the batch.
        questions: answered `batch_size` at a time.
        words: the answer trigger.
        seed: of the orders.
        doing: what is answered now.
    """

    llm: LLM
    contenders: Sequence[Contender]
    questions: Sequence[PromptedQuestion]
    batch_size: int = 8
    words: str = WORDS
    seed: int = 0
    doing: str = ""
    # contenders that have answered
    warm: set[ContenderKey] = field(default_factory=set, init=False)
    twins: Twins = field(init=False)

    def __post_init__(self) -> None:
        self.twins = Twins(self.llm)

    def llm_of(self, contender: Contender) -> LLM:
        """The model as a contender decodes it: exactly or not."""
        return self.llm if contender.exact else self.twins.of(False, None)

    @property
    def keys(self) -> list[tuple[ContenderKey, int]]:
        """Of all records: contender and batch."""
        numbers = range(len(self.batches))
        return [(contender.key, number) for number in numbers for contender in self.contenders]

    def part_of(self, key: tuple[ContenderKey, int]) -> int:
        """A batch, by all contenders."""
        return key[1]

    @property
    def batches(self) -> list[list[int]]:
        """The numbers of the questions of each batch."""
        numbers, size = range(len(self.questions)), self.batch_size
        return [list(numbers[begin : begin + size]) for begin in numbers[::size]]

    def run(self, done: set[tuple[ContenderKey, int]]) -> Iterator[list[BatchRecord]]:
        """The records that are missing.

        The first tokens of the first batch are decoded before, unmeasured: what is measured at
        first use is then known.
        """
        missing = [
            (batch, contender)
            for batch in range(len(self.batches))
            for contender in self._order(batch)
            if (contender.key, batch) not in done
        ]
        self.doing = "warming up"
        for contender in {contender.key: contender for _, contender in missing}.values():
            if contender.key in self.warm:
                continue
            self.warm.add(contender.key)
            prompts = [self.questions[number].prompt for number in self.batches[0]]
            few = replace(contender.plan, rationale_tokens=8, answer_tokens=4)
            llm = self.llm_of(contender)
            Answerer(llm, self.batch_size, self.words).run(prompts, few)
        for batch, contender in missing:
            self.doing = f"batch {batch}, {contender.label}"
            yield [self._measured(contender, batch)]

    def _order(self, batch: int) -> list[Contender]:
        """The contenders in an order of this batch's own."""
        rng = random.Random(f"order/{self.seed}/{batch}")
        return rng.sample(list(self.contenders), len(self.contenders))

    def _measured(self, contender: Contender, batch: int) -> BatchRecord:
        """Answer one batch; nothing is kept from an earlier one."""
        llm = self.llm_of(contender)
        llm.reset_prefix_cache()
        numbers = self.batches[batch]
        questions = [self.questions[number] for number in numbers]
        answerer = Answerer(llm, self.batch_size, self.words)
        began = time.perf_counter()
        answered = answerer.run([question.prompt for question in questions], contender.plan)
        seconds = time.perf_counter() - began
        texts = answerer.driver.record
        return record_of(contender, batch, numbers, questions, answered, texts, seconds)
