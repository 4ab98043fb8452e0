"""HumanEval asked as chat messages: for models that follow instructions."""

import re
from dataclasses import replace
from typing import ClassVar

from leapdecode_bench.tasks.public.base import Item
from leapdecode_bench.tasks.public.humaneval import HumanEval
from leapdecode_bench.tasks.public.reading import Row
from leapdecode_bench.tasks.public.scorers import passes

BLOCK = re.compile(r"```(?:python|py)?\n(.*?)(?:```|\Z)", re.DOTALL)


class HumanEvalChat(HumanEval):
    """A function's head as one turn; the answer's first block of code is run on the tests."""

    name = "humaneval_chat"
    summary = "HumanEval as chat messages: pass@1 in a limited process"
    files = ("humaneval_chat.jsonl", *HumanEval.files)
    stop: ClassVar[tuple[str, ...]] = ()  # a model for chats ends its answer itself

    def item(self, row: Row) -> Item:
        """The function's head as what the user says; its tests."""
        item = super().item(row)
        request = f"Complete this Python function.\n\n```python\n{item.body.rstrip()}\n```"
        return replace(item, turns=(request,))

    def score(self, item: Item, text: str) -> float:
        """1 where the function passes its tests, else 0; imports of its head stay in force."""
        block = BLOCK.search(text)
        return passes(f"{item.body}\n    pass\n\n{block[1]}" if block else "", item.facts["tests"])
