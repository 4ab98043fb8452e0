"""Strategies against each other: every question is searched under all of them in turn."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.reasoning import Executor, Node, Tree, solve
from leapdecode.reasoning.solve import job_of, prompted
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
        driving: further arguments of an `Executor`: budget, max_tokens, chat.
        doing: what is searched now, and how far.
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
    driving: Mapping[str, Any] = field(default_factory=dict)
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
        known. Where processes share the model, all do what the first one's `done` lacks.
        """
        done = self.llm.ranks.agreed(done)
        missing = [
            (number, strategy)
            for number in range(len(self.questions))
            for strategy in self._order(number)
            if (strategy, number) not in done
        ]
        for strategy in dict.fromkeys(strategy for _, strategy in missing):
            if strategy not in self.warm:
                self.doing = f"warming up, {strategy}"
                self._searched(strategy, self.questions[0], depth=2)
                self.warm.add(strategy)
        for count, (number, strategy) in enumerate(missing, 1):
            what = f"tree {count} of {len(missing)}: question {number}, {strategy}"
            self.doing = what
            yield self._measured(strategy, number, partial(self._grown, what))

    def _grown(self, what: str, tree: Tree) -> None:
        counts = tree.counts
        self.doing = f"{what}, {counts.thoughts} thoughts, {counts.evaluations} evaluations"

    def _order(self, number: int) -> list[str]:
        """The strategies in an order that is drawn for the question."""
        rng = random.Random(f"order/{self.sampling.seed}/{number}")
        return rng.sample(list(self.strategies), len(self.strategies))

    def _measured(
        self, strategy: str, number: int, on_step: Callable[[Tree], None]
    ) -> tuple[TreeRecord, Tree]:
        """Search the tree of one question; nothing is kept from an earlier one."""
        self.llm.reset_prefix_cache()
        with PeakMemory(self.llm.runner.device) as peak:
            began = time.perf_counter()
            question = self.questions[number]
            tree, driver = self._searched(strategy, question, on_step=on_step, **self.search)
            seconds = time.perf_counter() - began
        return record_of(strategy, number, tree, driver, began, seconds, peak.bytes), tree

    def _searched(
        self,
        strategy: str,
        question: Question,
        on_step: Callable[[Tree], None] | None = None,
        **search: Any,
    ) -> tuple[Tree, Executor]:
        scheduled = "serial" if strategy == COT else strategy
        driver = Executor(
            self.llm, self.sampling, scheduled, batch_size=self.batch_size,
            verification=self.verification, **self.driving, **self.guesses,
        )  # fmt: skip
        if strategy != COT:
            return solve(driver, self.task, question, on_step=on_step, **search), driver
        task = prompted(driver, self.task)
        tree = Tree(question.text, task.name, {"search": COT}, Node())
        (tree.answer,) = driver.run([job_of(task.chain(question), "answer", ())])
        facts = question.facts
        tree.score = None if facts is None else task.score(facts, tree.answer)
        return tree, driver
