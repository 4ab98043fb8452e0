"""Questions for chains of thought: those of our tasks, and of public sets (FastCoT's three, and
GSM8K).
"""

import random
from pathlib import Path

from leapdecode.errors import TaskError, UnknownName, with_suggestions
from leapdecode.reasoning.fastcot.questions import (
    TRIGGER_TEXT,
    PromptedQuestion,
    Source,
    question_of,
)
from leapdecode_bench.tasks import registry
from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.public import registry as public_sets
from leapdecode_bench.tasks.public.base import Item
from leapdecode_bench.tasks.public.loading import Source as Place
from leapdecode_bench.tasks.public.loading import load
from leapdecode_bench.tasks.public.reasoned import question as body_of

SETS = ("csqa", "aqua", "strategyqa", "gsm8k")
MOST = 100_000  # rows that are read


class PublicSource(Source):
    """The questions of "SET" or "SET=FILE", behind worked chains of thought."""

    def __init__(self, asked_for: str) -> None:
        self.name, _, path = asked_for.partition("=")
        self.place = Place(public_sets.find(self.name), path=Path(path) if path else None)
        self.set = self.place.set
        self.shots = self.set.shots
        self.stop = self.set.stop or Source.stop

    def ask(self, question: str, shots: int) -> PromptedQuestion:
        """A question of a user's own."""
        item = Item("", body_of(question.strip()))
        return PromptedQuestion(question.strip(), self.set.prompt(item, shots))

    def questions(self, count: int, seed: int, shots: int) -> list[PromptedQuestion]:
        """Rows in an order that the seed draws."""
        items = load(self.place, MOST).items
        random.Random(f"questions/{seed}").shuffle(items)
        different = list({item.body: item for item in items}.values())
        if len(different) < count:
            where = self.place.path or self.name
            raise TaskError(f"{where} has {len(different)} questions, not {count}; lower --limit")
        return [self._asked(item, shots) for item in different[:count]]

    def _asked(self, item: Item, shots: int) -> PromptedQuestion:
        def score(answer: str) -> float:
            return float(self.set.score(item, TRIGGER_TEXT + answer) or 0.0)

        prompt = self.set.prompt(item, shots)
        return PromptedQuestion(item.facts["question"], prompt, score)


KINDS = {"math": ("rationale",), "choice": ("multiple", "yes_no")}


def find(name: str) -> Source | None:
    """The source of a name: math, choice, or a public set ("csqa=FILE"); None for another file.

    Raises `UnknownName` with suggestions; of public sets `TaskError`.
    """
    if name in KINDS:
        return TaskSource(name)
    if name.partition("=")[0] in SETS:
        return PublicSource(name)
    if name.endswith(".jsonl"):
        return None
    message = with_suggestions(f"unknown task {name!r}", name, KINDS)
    raise UnknownName(f"{message} (or the name of a .jsonl file)")


class TaskSource(Source):
    """The questions of one of the tasks, its kinds in turn."""

    def __init__(self, name: str) -> None:
        self.name, self.task = name, registry.find(name)
        self.kinds = KINDS[name]

    def ask(self, question: str, shots: int) -> PromptedQuestion:
        body = f"Question: {question.strip()}\nAnswer:"
        example = Example(self.kinds[0], body, "")
        demonstrations = self._shown(self.kinds[0], shots)
        return PromptedQuestion(question.strip(), self.task.prompt(example, demonstrations))

    def questions(self, count: int, seed: int, shots: int) -> list[PromptedQuestion]:
        each = -(-count // len(self.kinds))
        drawn = [self.task.examples("held_out", each, kind, seed) for kind in self.kinds]
        inturn = [example for group in zip(*drawn, strict=True) for example in group][:count]
        return [self._asked(example, shots) for example in inturn]

    def _shown(self, kind: str, shots: int) -> list[Example]:
        return self.task.examples("train", shots, kind)

    def _asked(self, example: Example, shots: int) -> PromptedQuestion:
        def score(answer: str) -> float:
            return float(self.task.score(example, TRIGGER_TEXT + answer) or 0.0)

        prompt = self.task.prompt(example, self._shown(example.kind, shots))
        return PromptedQuestion(question_of(example.body), prompt, score)
