"""Sets that are answered behind a chain of thought."""

from typing import ClassVar

from leapdecode.reasoning.answers import final_choice
from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.shots import STOP, chains


class Reasoned(PublicSet):
    """Asked behind worked chains of thought; a text stops where it asks a question of its own."""

    stop: ClassVar[tuple[str, ...]] = STOP

    def demonstrations(self, count: int) -> str:
        """Chains of thought."""
        return chains(self.name, count)


class Choice(Reasoned):
    """One of several options is right; `facts` has "options" by label, and the "answer"'s label."""

    def score(self, item: Item, text: str) -> float | None:
        """1 where the text names the right option, by label or by words, else 0; None where the
        right one is not known.
        """
        options, right = item.facts["options"], item.facts["answer"]
        return float(final_choice(text, list(options), options) == right.lower()) if right else None
