"""MBPP (Austin et al., 2021): Python from a sentence and three tests."""

from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import MISSING, Row
from leapdecode_bench.tasks.public.reasoned import worked
from leapdecode_bench.tasks.public.scorers import cut, passes

END = "[DONE]"


class Mbpp(PublicSet):
    """`text`, `code`, `test_list`, `test_setup_code`; sanitized: `prompt` and `test_imports`.

    Of the whole file the tasks 11 to 510 are the test set; rows are taken as they come.
    """

    name = "mbpp"
    summary = "Python functions from a sentence: pass@1 in a limited process"
    hub = Hub("google-research-datasets/mbpp", "full", "validation")
    files = ("mbpp.jsonl", "mbpp/mbpp.jsonl", "mbpp/sanitized-mbpp.json")
    origin = "mbpp.jsonl or sanitized-mbpp.json of google-research/mbpp"
    stop = (END,)
    shots = 3

    def item(self, row: Row) -> Item:
        """The sentence with its tests."""
        text, tests = row.text("text", "prompt"), row.texts("test_list")
        setup = row.optional("test_setup_code")
        if row.value("test_imports") not in (MISSING, []):
            setup = "\n".join([setup, *row.texts("test_imports")])
        facts = {"tests": "\n".join(tests), "setup": setup, "reference": row.text("code")}
        return Item(row.name("task_id"), asked(text, tests), facts=facts)

    def score(self, item: Item, text: str) -> float:
        """1 where the program passes its tests, else 0."""
        program = f"{item.facts['setup']}\n{cut(text, self.stop)}"
        return passes(program, item.facts["tests"])

    def demonstrations(self, count: int) -> str:
        """Tasks with their programs."""
        return "".join(
            f"{asked(example['text'], example['tests'])}{example['code'].strip()}\n{END}\n\n"
            for example in worked(self.name, count)
        )


def asked(text: str, tests: list[str]) -> str:
    """The paper's prompt (section 4)."""
    listed = "\n".join(tests)
    return (
        f"You are an expert Python programmer, and here is your task: {text.strip()} "
        f"Your code should pass these tests:\n\n{listed}\n[BEGIN]\n"
    )
