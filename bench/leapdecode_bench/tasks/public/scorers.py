"""Scores from 0 to 1 that several sets share; the reference libraries are imported when needed."""

import re
from fractions import Fraction
from typing import Any

from leapdecode.reasoning.answers import final_number
from leapdecode_bench.tasks import sandbox

SECONDS, MEMORY = 4.0, 512  # that a program with its tests may take, MiB
_HASHES = re.compile(r"####\s*([-+]?[\d,]*\.?\d+)")


def number_of(text: str) -> Fraction | int | None:
    """The number behind "the answer is", else behind "####" (GSM8K's own form)."""
    number = final_number(text)
    if number is not None:
        return number
    behind = _HASHES.search(text)
    return final_number(f"the answer is {behind.group(1)}") if behind else None


def rouge(text: str, reference: str, kind: str = "rouge1") -> float:
    """The F-measure of `rouge-score`, with stems, as summaries are scored."""
    from rouge_score import rouge_scorer

    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=True)
    return float(scorer.score(reference, text)[kind].fmeasure)


def bleu(text: str, reference: str) -> float:
    """Sentence BLEU of `sacrebleu`, as a share: its smoothing, its tokens ("13a")."""
    import sacrebleu

    return float(sacrebleu.sentence_bleu(text, [reference]).score) / 100


def passes(program: str, tests: str) -> float:
    """1 where a program and its tests run to their end in the limited process, else 0."""
    done: Any = sandbox.run(f"{program}\n{tests}\n", seconds=SECONDS, memory_mib=MEMORY)
    return float(done.ok)


def cut(text: str, stops: tuple[str, ...]) -> str:
    """A text before the first of its stop strings."""
    places = [start for stop in stops if (start := text.find(stop)) >= 0]
    return text[: min(places, default=len(text))]
