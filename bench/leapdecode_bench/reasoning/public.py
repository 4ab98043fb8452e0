"""Public sets as tasks of a tree search (SEED's three): their questions in our tasks' prompts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leapdecode.errors import TaskError
from leapdecode.reasoning.tasks.base import Question, Stage, Stages, State, TreeTask
from leapdecode_bench.tasks.public import registry
from leapdecode_bench.tasks.public.loading import Source, load

TREES = {"gsm8k": "math", "creative_writing": "passage", "blocksworld6": "blocksworld"}


def find(name: str, tasks: Mapping[str, TreeTask]) -> TreeTask | None:
    """The set "SET" or "SET=FILE" as a task, thought about as one of `tasks`; None for others."""
    inner = TREES.get(name.partition("=")[0])
    return PublicTree(name, tasks[inner]) if inner else None


class PublicTree(TreeTask):
    """The questions of a set, thought about as `inner` does."""

    def __init__(self, asked_for: str, inner: TreeTask) -> None:
        name, _, path = asked_for.partition("=")
        self.source = Source(registry.find(name), path=Path(path) if path else None)
        self.inner, self.name = inner, name
        self.summary, self.depth = self.source.set.summary, inner.depth

    def think(self, state: State) -> Stages[str]:
        """As the inner task."""
        return self.inner.think(state)

    def evaluation(self, state: State) -> Stage:
        """As the inner task."""
        return self.inner.evaluation(state)

    def parse(self, text: str) -> float | None:
        """As the inner task."""
        return self.inner.parse(text)

    def is_final(self, state: State) -> bool:
        """As the inner task."""
        return self.inner.is_final(state)

    def finish(self, state: State) -> Stages[str]:
        """As the inner task."""
        return self.inner.finish(state)

    def chain(self, question: Question) -> Stages[str]:
        """As the inner task."""
        return self.inner.chain(question)

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """As the inner task."""
        return self.inner.score(facts, answer)

    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """The first rows of the set; raises `TaskError` where there are not so many."""
        items = load(self.source, count).items
        if len(items) < count:
            where = self.source.path or self.name
            raise TaskError(f"{where} has {len(items)} questions, not {count}; lower --limit")
        return [Question(item.facts["question"], item.facts) for item in items]
