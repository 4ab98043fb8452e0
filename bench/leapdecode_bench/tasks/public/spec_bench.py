"""Spec-Bench (Xia et al., 2024): six groups of prompts for speculative decoding."""

from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.mt_bench import conversation
from leapdecode_bench.tasks.public.reading import Row

OWN = ("translation", "summarization", "qa", "math_reasoning", "rag")
MT_BENCH = (
    "writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities",
)  # fmt: skip


class SpecBench(PublicSet):
    """FastChat's fields; MT-Bench's eight categories are one group, the other five are their own.

    Answers are kept in Spec-Bench's own format: steps, tokens, times and accepted lengths by turn.
    """

    name = "spec_bench"
    summary = "six groups of prompts; answers are kept in Spec-Bench's own format"
    files = ("spec_bench.jsonl", "spec_bench/question.jsonl")
    origin = "question.jsonl of Spec-Bench's data/spec_bench"
    groups = ("mt_bench", *OWN)
    answers = "spec_bench"

    def item(self, row: Row) -> Item:
        """The turns of a conversation, and its group."""
        category = row.text("category")
        categories = (*OWN, *MT_BENCH)
        if category not in categories:
            row.refuse("category", f"must be one of {', '.join(categories)}, not {category!r}")
        return conversation(row, "mt_bench" if category in MT_BENCH else category)
