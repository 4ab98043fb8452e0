"""WMT16 German to English (Bojar et al., 2016)."""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from leapdecode.errors import TaskError
from leapdecode_bench.tasks.public.base import Hub, Item, PublicSet
from leapdecode_bench.tasks.public.reading import Found, Row, numbered, read_rows, text_of
from leapdecode_bench.tasks.public.reasoned import worked
from leapdecode_bench.tasks.public.scorers import bleu

_SEGMENT = re.compile(r"<seg[^>]*>(.*?)</seg>", re.DOTALL)
PAIRS = (("-src.de.sgm", "-ref.en.sgm"), (".de", ".en"))  # ends of the published files' names


class Wmt16(PublicSet):
    """`translation` with `de` and `en`; or the published pair of files, named by the German one."""

    name = "wmt16"
    summary = "German to English: sentence BLEU"
    hub = Hub("wmt/wmt16", "de-en")
    files = ("wmt16.jsonl", "wmt16/newstest2016-deen-src.de.sgm", "wmt16/newstest2016.de")
    origin = "newstest2016-deen-src.de.sgm beside newstest2016-deen-ref.en.sgm of WMT16"
    stop = ("\n",)
    shots = 3
    packages = ("sacrebleu",)

    def rows(self, path: Path) -> Iterator[Found]:
        """The rows of JSON or Parquet, or of a pair of files."""
        for german, english in PAIRS:
            if path.name.endswith(german):
                beside = path.with_name(path.name.removesuffix(german) + english)
                return _paired(path, beside)
        return read_rows(path)

    def item(self, row: Row) -> Item:
        """The German sentence; the English one."""
        german, english = row.text("translation.de"), row.text("translation.en")
        facts = {"reference": " ".join(english.split())}
        return Item("", _asked(" ".join(german.split())), facts=facts)

    def score(self, item: Item, text: str) -> float:
        """Sentence BLEU against the reference."""
        return bleu(text.strip(), item.facts["reference"])

    def demonstrations(self, count: int) -> str:
        """Sentences with their translations."""
        examples = worked(self.name, count)
        return "".join(f"{_asked(example['de'])} {example['en']}\n\n" for example in examples)


def _asked(german: str) -> str:
    return f"Translate German to English.\nGerman: {german}\nEnglish:"


def _paired(german: Path, english: Path) -> Iterator[Found]:
    """The segments, or the lines, of two files, in their order."""
    sides = [_segments(german), _segments(english)]
    if len(sides[0]) != len(sides[1]):
        raise TaskError(
            f"{german} has {len(sides[0])} sentences and {english} has {len(sides[1])}; "
            "they must be parallel"
        )
    pairs = zip(*sides, strict=True)
    return numbered(str(german), ({"translation": {"de": de, "en": en}} for de, en in pairs))


def _segments(path: Path) -> list[str]:
    text = text_of(path)
    if path.suffix == ".sgm":
        return [html.unescape(segment).strip() for segment in _SEGMENT.findall(text)]
    return text.removesuffix("\n").split("\n")
