"""Strategies against each other: every question is searched under all of them in turn."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.reasoning import Executor, Node, Tree, solve
from leapdecode.reasoning.solve import job_of
from leapdecode_bench.measure.memory import PeakMemory
from leapdecode_bench.measure.trees.records import TreeRecord, record_of

if TYPE_CHECKING:
    from leapdecode.llm import LLM
    from leapdecode.reasoning.tasks import Question, TreeTask

COT = "cot"  # a chain of thought, decoded plainly: no tree


@dataclass
class Comparison:
    """What is compared.

    Attributes:
        strategies: as an `Executor` takes them; "cot" is a chain of thought without a tree.
        questions: each is searched under every strategy, in an order drawn for it.
        guesses: method and options of the speculative strategies.
        search: arguments of `solve`: thoughts, breadth, depth, search, evaluator, samples.
        batch_size: texts that are decoded at a time, where a strategy batches or schedules.
        doing: what is searched now.
    """

    llm: LLM
    task: TreeTask
    strategies: Sequence[str]
    questions: Sequence[Question]
    sampling: SamplingParams
    guesses: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 8
    verification: str = "seeded"
    doing: str = ""
    warm: set[str] = field(default_factory=set, init=False)  # strategies that have searched

    @property
    def keys(self) -> list[tuple[str, int]]:
        """Of all records: strategy and question."""
        numbers = range(len(self.questions))
        return [(strategy, number) for number in numbers for strategy in self.strategies]

    def part_of(self, key: tuple[str, int]) -> int:
        """A question, by all strategies."""
        return key[1]

    def run(self, done: set[tuple[str, int]]) -> Iterator[tuple[TreeRecord, Tree]]:
        """The records that are missing, with their trees.

        A level of a tree is searched before, unmeasured: what is measured at first use is then
        known.
        """
        missing = [
            (number, strategy)
            for number in range(len(self.questions))
            for strategy in self._order(number)
            if (strategy, number) not in done
        ]
        self.doing = "warming up"
        for strategy in dict.fromkeys(strategy for _, strategy in missing):
            if strategy not in self.warm:
                self._searched(strategy, self.questions[0], depth=2)
                self.warm.add(strategy)
        for number, strategy in missing:
            self.doing = f"question {number}, {strategy}"
            yield self._measured(strategy, number)

    def _order(self, number: int) -> list[str]:
        """The strategies in an order that is drawn for the question."""
        rng = random.Random(f"order/{self.sampling.seed}/{number}")
        return rng.sample(list(self.strategies), len(self.strategies))

    def _measured(self, strategy: str, number: int) -> tuple[TreeRecord, Tree]:
        """Search the tree of one question; nothing is kept from an earlier one."""
        self.llm.reset_prefix_cache()
        with PeakMemory(self.llm.runner.device) as peak:
            began = time.perf_counter()
            tree, driver = self._searched(strategy, self.questions[number], **self.search)
            seconds = time.perf_counter() - began
        return record_of(strategy, number, tree, driver, began, seconds, peak.bytes), tree

    def _searched(self, strategy: str, question: Question, **search: Any) -> tuple[Tree, Executor]:
        scheduled = "serial" if strategy == COT else strategy
        driver = Executor(
            self.llm, self.sampling, scheduled, batch_size=self.batch_size,
            verification=self.verification, **self.guesses,
        )  # fmt: skip
        if strategy != COT:
            return solve(driver, self.task, question, **search), driver
        tree, facts = Tree(question.text, self.task.name, {"search": COT}, Node()), question.facts
        (tree.answer,) = driver.run([job_of(self.task.chain(question), "answer", ())])
        tree.score = None if facts is None else self.task.score(facts, tree.answer)
        return tree, driver
