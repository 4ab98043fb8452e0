"""MT-Bench (Zheng et al., 2023): conversations of two turns, for a judge elsewhere."""

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import MISSING, Row


class MtBench(PublicSet):
    """`question_id`, `category`, `turns`, perhaps `reference`; the hub's `prompt_id`, `prompt`."""

    name = "mt_bench"
    summary = "conversations of two turns; answers are kept in FastChat's format for a judge"
    hub = Hub("HuggingFaceH4/mt_bench_prompts", None, "train")
    files = ("mt_bench.jsonl", "mt_bench/question.jsonl")
    origin = "question.jsonl of FastChat's llm_judge/data/mt_bench"
    answers = "fastchat"

    def item(self, row: Row) -> Item:
        """The turns of a conversation."""
        return conversation(row)


def conversation(row: Row, group: str = "") -> Item:
    """A row of FastChat's questions."""
    facts = {"category": row.text("category"), "question_id": identity(row)}
    turns = tuple(row.texts("turns", "prompt"))
    return Item(row.name("question_id", "prompt_id"), turns=turns, facts=facts, group=group)


def identity(row: Row) -> int | str:
    """The question's number, or its name where it has one; answers repeat it as it is."""
    question_id = row.value("question_id", "prompt_id")
    if (
        question_id is MISSING
        or isinstance(question_id, bool)
        or not isinstance(question_id, int | str)
    ):
        row.refuse("question_id", "must be a whole number or a text")
    return question_id
