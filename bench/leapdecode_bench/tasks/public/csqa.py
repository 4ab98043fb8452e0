"""CommonsenseQA (Talmor et al., 2019): five options, one of them right."""

from leapdecode_bench.tasks.public.base import Hub, Item
from leapdecode_bench.tasks.public.reading import MISSING, Row
from leapdecode_bench.tasks.public.reasoned import Choice, choices


class Csqa(Choice):
    """`question` with `stem` and `choices`, and `answerKey`; or the hub's flattened form.

    The published test file has no answer keys; its texts are not scored.
    """

    name = "csqa"
    summary = "everyday knowledge: one of five options behind a chain of thought"
    hub = Hub("tau/commonsense_qa", None, "validation")
    files = ("csqa.jsonl", "csqa/dev_rand_split.jsonl")
    origin = "dev_rand_split.jsonl of CommonsenseQA"
    shots = 7

    def item(self, row: Row) -> Item:
        """The stem with its options; the right label."""
        stem = row.text("question.stem", "question")
        options = _options(row)
        key = row.optional("answerKey")
        if key and key not in options:
            row.refuse("answerKey", f"must be one of {', '.join(options)}, not {key!r}")
        body = choices(stem.strip(), options)
        return Item("", body, facts={"question": stem, "options": options, "answer": key})


def _options(row: Row) -> dict[str, str]:
    """Texts by label: a list of objects in the file, two lists on the hub."""
    listed = row.value("question.choices")
    if listed is MISSING:
        labels = row.texts("choices.label", least=2)
        texts = row.texts("choices.text", least=2)
        if len(labels) != len(texts):
            row.refuse("choices", f"has {len(labels)} labels and {len(texts)} texts")
        return dict(zip(labels, texts, strict=True))
    if not isinstance(listed, list) or len(listed) < 2:
        row.refuse("question.choices", "must be a list of two or more options")
    places = [f"question.choices.{option}" for option in range(len(listed))]
    return {row.text(f"{option}.label"): row.text(f"{option}.text") for option in places}
