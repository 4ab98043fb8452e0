"""AQuA-RAT (Ling et al., 2017): algebra with five options."""

import re

from leapdecode_bench.tasks.public.base import Hub, Item
from leapdecode_bench.tasks.public.reading import Row
from leapdecode_bench.tasks.public.reasoned import Choice, choices

_OPTION = re.compile(r"\s*\(?([A-E])\s*\)\s*(.*?)\s*$", re.DOTALL)  # "A)21", "B) 21.5"


class Aqua(Choice):
    """`question`, `options` as "A)21", `rationale`, and the label that is `correct`."""

    name = "aqua"
    summary = "algebra: one of five options behind a chain of thought"
    hub = Hub("deepmind/aqua_rat", "raw")
    files = ("aqua.json", "aqua/test.json")
    origin = "test.json of deepmind/AQuA"
    shots = 4

    def item(self, row: Row) -> Item:
        """The question with its options; the right label."""
        question = row.text("question").strip()
        key = row.text("correct").strip()
        matches = [_OPTION.match(option) for option in row.texts("options", least=2)]
        if not all(matches):
            row.refuse("options", 'must be texts as "A)21"')
        options = {match.group(1): match.group(2) for match in matches if match}
        if key not in options:
            row.refuse("correct", f"must be one of {', '.join(options)}, not {key!r}")
        facts = {"question": question, "options": options, "answer": key}
        return Item("", choices(question, options), facts=facts)
