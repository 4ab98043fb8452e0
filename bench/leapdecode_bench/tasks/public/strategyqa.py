"""StrategyQA (Geva et al., 2021): yes or no behind several steps."""

from leapdecode.reasoning.answers import final_choice
from leapdecode_bench.tasks.public.base import Hub, Item
from leapdecode_bench.tasks.public.reading import MISSING, Row
from leapdecode_bench.tasks.public.reasoned import Reasoned, question

LABELS = ("yes", "no")


class StrategyQa(Reasoned):
    """`question` and a boolean `answer`; or BIG-bench's `input` and `target_scores`."""

    name = "strategyqa"
    summary = "yes or no behind a chain of thought of several steps"
    hub = Hub("ChilleD/StrategyQA", None, "test")
    files = ("strategyqa.json", "strategyqa/strategyqa_train.json")
    origin = "strategyqa_train.json of StrategyQA, or BIG-bench's task.json"
    shots = 6

    def item(self, row: Row) -> Item:
        """The question; whether yes is right."""
        text = row.text("question", "input").strip()
        right = row.value("answer")
        if right is MISSING:
            right = row.value("target_scores.Yes")
            right = bool(right) if right in (0, 1) else MISSING
        if not isinstance(right, bool):
            row.refuse("answer", "must be true or false")
        body = question(f"Yes or no: {text}")
        return Item("", body, facts={"question": text, "answer": LABELS[0 if right else 1]})

    def score(self, item: Item, text: str) -> float:
        """1 for the right word, else 0."""
        return float(final_choice(text, LABELS) == item.facts["answer"])
