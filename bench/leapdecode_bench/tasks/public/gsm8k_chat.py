"""GSM8K asked as chat messages, without worked examples: for models that follow instructions."""

from dataclasses import replace
from typing import ClassVar

from leapdecode_bench.tasks.public.base import Item
from leapdecode_bench.tasks.public.gsm8k import Gsm8k
from leapdecode_bench.tasks.public.reading import Row

FORM = "Solve the problem step by step. End with: The answer is, and the number."


class Gsm8kChat(Gsm8k):
    """A question as one turn, and how to end the answer."""

    name = "gsm8k_chat"
    summary = "GSM8K as chat messages: the number behind the answer"
    files = ("gsm8k_chat.jsonl", *Gsm8k.files)
    stop: ClassVar[tuple[str, ...]] = ()  # a model for chats ends its answer itself
    shots = 0

    def item(self, row: Row) -> Item:
        """The question as what the user says; the number behind "####"."""
        item = super().item(row)
        return replace(item, body="", turns=(f"{item.facts['question']}\n\n{FORM}",))
