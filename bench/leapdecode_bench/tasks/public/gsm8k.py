"""GSM8K (Cobbe et al., 2021): grade-school word problems, answered by a number."""

import re
from typing import ClassVar

from leapdecode.reasoning.answers import final_number
from leapdecode_bench.tasks.public.base import Hub, Item
from leapdecode_bench.tasks.public.reading import Row
from leapdecode_bench.tasks.public.reasoned import Reasoned, question
from leapdecode_bench.tasks.public.scorers import number_of

_RESULT = re.compile(r"####\s*(.+?)\s*$")
SUMS = re.compile(r"<<[^<>]*>>")  # annotations for a calculator, as in "6/2=<<6/2=3>>3"


class Gsm8k(Reasoned):
    """`question`, and an `answer` whose last line is "#### 18"; 8 chains of thought before."""

    name = "gsm8k"
    summary = "grade-school word problems: the number behind a chain of thought"
    hub = Hub("openai/gsm8k", "main")
    files: ClassVar[tuple[str, ...]] = ("gsm8k.jsonl", "gsm8k/test.jsonl")
    origin = "test.jsonl of openai/grade-school-math"
    shots = 8

    def item(self, row: Row) -> Item:
        """The question; the number behind "####"."""
        text = row.text("question")
        answer = row.text("answer")
        match = _RESULT.search(answer)
        right = final_number(f"the answer is {match.group(1)}") if match else None
        if match is None or right is None:
            row.refuse("answer", 'must end with "#### " and a number')
        rationale = SUMS.sub("", answer[: match.start()]).strip()
        text = " ".join(text.split())
        facts = {"question": text, "answer": right, "reference": rationale}
        return Item("", question(text), facts=facts)

    def score(self, item: Item, text: str) -> float:
        """1 for the right number, else 0."""
        return float(number_of(text) == item.facts["answer"])
