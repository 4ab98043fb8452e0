"""Creative writing (SEED, appendix D): four paragraphs with given ends, and how coherent they are.

A passage's coherency score follows from a rule: a paragraph is coherent if it ends with the subject
that it starts with, and each coherent paragraph is worth two points on top of two.
"""

import random
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from leapdecode.reasoning.answers import parse_value
from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.passage.writing import End, analysis, ends, fill, paragraphs, words

COUNT = 4
BASE, EACH = (
    2,
    2,
)  # score of a passage without a coherent paragraph, and what each coherent one adds
COHERENT_COUNTS, WEIGHTS = (0, 1, 2, 3, 4), (15, 15, 15, 20, 35)
_WRITE = "Write a coherent passage of"
_ANALYZE = "Analyze the passage:"
_HEADING = re.compile(r"^[ \t#*]*Passage:[ \t*]*\r?$", re.MULTILINE)
_EMPTY_LINE = re.compile(r"\r?\n[ \t]*\r?\n")
_NEXT_PROMPT = re.compile(rf"^(?:{re.escape(_WRITE)}|{re.escape(_ANALYZE)})", re.MULTILINE)


class Passage(Task):
    """Writing a passage whose paragraphs end as asked."""

    name: ClassVar[str] = "passage"
    summary: ClassVar[str] = (
        "creative writing: a plan and four paragraphs with given end sentences, or their coherency"
    )
    kinds: ClassVar[tuple[str, ...]] = ("passage", "value")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A passage to write, or one to judge; `facts` has its end sentences and skeletons."""
        final = ends(rng, split)
        facts = {
            "ends": [end.text for end in final],
            "skeletons": [end.skeleton for end in final],
        }
        make_kind = written if kind == "passage" else judged
        return make_kind(rng, final, facts)

    def score(self, example: Example, text: str) -> float:
        """1 for four paragraphs that all end as given, or for the right value; otherwise 0."""
        if example.kind == "value":
            return float(
                parse_value(_NEXT_PROMPT.split(text, maxsplit=1)[0]) == example.facts["score"]
            )
        return float(sentences_kept(example, text) == 1)


def written(rng: random.Random, final: list[End], facts: dict[str, Any]) -> Example:
    """A passage with its plan, asked for by its end sentences."""
    plans = zip(rng.sample(words().plans, COUNT), final, strict=True)
    plan = [fill(rng, line, end.subject, end.thing) for line, end in plans]
    listed = "\n".join(f"{number}. {line}" for number, line in enumerate(plan, 1))
    text = "\n\n".join(paragraphs(rng, final, [end.subject for end in final]))
    completion = f"\nPlan:\n{listed}\nPassage:\n{text}\n"
    return Example("passage", passage_prompt(facts["ends"]), completion, facts)


def judged(rng: random.Random, final: list[End], facts: dict[str, Any]) -> Example:
    """A passage some of whose paragraphs begin with another subject, and its coherency score."""
    subjects = [end.subject for end in final]
    coherent = rng.choices(COHERENT_COUNTS, WEIGHTS)[0]
    everyone = [name for names in words().subjects.values() for name in names]
    for number in rng.sample(range(COUNT), COUNT - coherent):
        subjects[number] = rng.choice([name for name in everyone if name not in final[number].text])
    score = BASE + EACH * coherent
    body = value_prompt("\n\n".join(paragraphs(rng, final, subjects)))
    completion = f" {analysis(rng, final, subjects, score)}\n"
    more = {"score": score, "right": coherent == COUNT}
    return Example("value", body, completion, facts | more)


def passage_prompt(sentences: Sequence[str]) -> str:
    """The published prompt for a plan and a passage whose paragraphs end with these sentences."""
    listed = "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1))
    return (
        f"{_WRITE} {len(sentences)} short paragraphs. "
        f"The end sentence of each paragraph must be:\n{listed}\n"
        "Make a plan then write. Your output should be of the following format:\n"
        "Plan:\nYour plan here.\nPassage:\nYour passage here.\nThe output is:"
    )


def value_prompt(passage: str, how: str = "") -> str:
    """The published prompt for a coherency score; a text's plan is not shown.

    `how` says how the reply is to be written.
    """
    instruction = f"{how}\n" if how else ""
    paragraphs = paragraphs_of(passage)
    shown = passage.strip() if paragraphs is None else "\n\n".join(paragraphs)
    return (
        f'{_ANALYZE} {shown}, then at the last line conclude "Thus the coherency score is [s]", '
        f"where [s] is an integer from 1 to 10.\n{instruction}The coherency score is:"
    )


def paragraphs_of(text: str) -> list[str] | None:
    """The paragraphs below the heading "Passage:"; None without it.

    A paragraph is one line, and an empty line parts it from the next; the passage ends where a
    model goes on with another prompt.
    """
    heading = _HEADING.search(text)
    if heading is None:
        return None
    passage = _NEXT_PROMPT.split(text[heading.end() :], maxsplit=1)[0]
    return [block.strip() for block in _EMPTY_LINE.split(passage) if block.strip()]


def sentences_kept(example: Example, text: str) -> float:
    """The share of the given sentences that end their paragraph exactly.

    0 unless there are as many paragraphs.
    """
    ends, paragraphs = example.facts["ends"], paragraphs_of(text)
    if paragraphs is None or len(paragraphs) != len(ends):
        return 0.0
    num_kept = sum(
        ends_with(paragraph, end) for paragraph, end in zip(paragraphs, ends, strict=True)
    )
    return num_kept / len(ends)


def ends_with(paragraph: str, sentence: str) -> bool:
    """Whether a paragraph's last sentence is this one, and not the end of a longer one."""
    before = paragraph.removesuffix(sentence)
    ended = before.rstrip().rstrip("\"'\u201d\u2019)")
    begins = not ended or ended.endswith((".", "!", "?", "\u2026"))
    return before != paragraph and "\n" not in paragraph and begins
