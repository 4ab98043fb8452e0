"""Public sets of questions for chains of thought: FastCoT's three, and GSM8K."""

import random
from pathlib import Path

from leapdecode.errors import TaskError
from leapdecode.reasoning.fastcot.questions import TRIGGER_TEXT, PromptedQuestion, Source
from leapdecode_bench.tasks.public.base import Item
from leapdecode_bench.tasks.public.loading import Source as Place
from leapdecode_bench.tasks.public.loading import load
from leapdecode_bench.tasks.public.registry import find
from leapdecode_bench.tasks.public.shots import question as body_of

SETS = ("csqa", "aqua", "strategyqa", "gsm8k")
MOST = 100_000  # rows that are read


class PublicSource(Source):
    """The questions of "SET" or "SET=FILE", behind at most as many chains as the papers show."""

    def __init__(self, asked_for: str) -> None:
        self.name, _, path = asked_for.partition("=")
        self.place = Place(find(self.name), path=Path(path) if path else None)
        self.set = self.place.set

    def ask(self, question: str, shots: int) -> PromptedQuestion:
        """A question of a user's own."""
        item = Item("", body_of(question.strip()))
        return PromptedQuestion(question.strip(), self.set.prompt(item, min(shots, self.set.shots)))

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

        prompt = self.set.prompt(item, min(shots, self.set.shots))
        return PromptedQuestion(item.facts["question"], prompt, score)
