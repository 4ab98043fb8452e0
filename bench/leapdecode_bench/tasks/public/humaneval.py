"""HumanEval (Chen et al., 2021): functions from their documentation, run on tests."""

from typing import ClassVar

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Row
from leapdecode_bench.tasks.public.scorers import cut, passes


class HumanEval(PublicSet):
    """`task_id`, `prompt`, `canonical_solution`, `test` with a function `check`, `entry_point`."""

    name = "humaneval"
    summary = "Python functions from signature and documentation: pass@1 in a limited process"
    hub = Hub("openai/openai_humaneval")
    files: ClassVar[tuple[str, ...]] = (
        "humaneval.jsonl",
        "humaneval/HumanEval.jsonl",
        "HumanEval.jsonl.gz",
    )
    origin = "HumanEval.jsonl of openai/human-eval"
    # of the paper, section 3.1: a function ends where something new begins
    stop: ClassVar[tuple[str, ...]] = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")

    def item(self, row: Row) -> Item:
        """The prompt as it stands; its tests."""
        test, entry = row.text("test"), row.text("entry_point")
        if not entry.isidentifier():
            row.refuse("entry_point", f"must be the name of a function, not {entry!r}")
        facts = {"tests": f"{test}\ncheck({entry})", "reference": row.text("canonical_solution")}
        return Item(row.name("task_id"), row.text("prompt"), facts=facts)

    def score(self, item: Item, text: str) -> float:
        """1 where the function passes its tests, else 0."""
        return passes(item.body + cut(text, self.stop), item.facts["tests"])
