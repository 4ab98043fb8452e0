"""Questions whose facts are told in the question: four lettered options, or yes and no.

The two splits share their words but not their skeletons: a fifth of the combinations of relation,
number of steps, order, fact wording and question wording is held out, with question wordings of its
own.
"""

import random
from collections.abc import Callable
from typing import ClassVar

from leapdecode.reasoning.answers import final_choice
from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.choice.amounts import budget, counts, timetable
from leapdecode_bench.tasks.choice.days import busy_days, calendar, free_days
from leapdecode_bench.tasks.choice.draw import Draw, Puzzle, but, words
from leapdecode_bench.tasks.choice.elimination import elimination
from leapdecode_bench.tasks.choice.kinds import kinds_of, kinship, rules
from leapdecode_bench.tasks.choice.orders import ordering
from leapdecode_bench.tasks.choice.owners import lookup, swaps
from leapdecode_bench.tasks.choice.places import boxes, carried, gifts, journey
from leapdecode_bench.tasks.english import capital

LABELS = {"multiple": ["a", "b", "c", "d"], "yes_no": ["yes", "no"]}
FAMILIES: list[Callable[[Draw], Puzzle]] = [
    # One fact leads to the next.
    ordering,
    journey,
    carried,
    gifts,
    boxes,
    kinds_of,
    calendar,
    rules,
    kinship,
    # Rows of facts are compared or combined.
    counts,
    lookup,
    elimination,
    timetable,
    free_days,
    busy_days,
    budget,
    swaps,
]


class Choice(Task):
    """Short reasoning from stated facts, ending in "So the answer is the park." or the like.

    References name the option itself, not its letter: a small model copies, and a letter stands
    before what it would look for. The scorer takes either.
    """

    name: ClassVar[str] = "choice"
    summary: ClassVar[str] = "stated facts, a short rationale, a lettered option or yes/no"
    kinds: ClassVar[tuple[str, ...]] = ("multiple", "yes_no")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A puzzle. `facts` has its label, all labels, and what each of them stands for."""
        label = rng.choice(LABELS[kind])  # first, so that the answers stay balanced
        family = rng.choice(FAMILIES)
        draw, puzzle = draw_puzzle(
            rng, split, family, None if kind == "multiple" else label == "yes"
        )
        steps = [*puzzle.steps, conclusion(draw, puzzle)]
        reply = label
        question = puzzle.question
        texts = dict[str, str]()
        if kind == "multiple":
            texts = options(draw, puzzle, label)
            lettered = (f"({letter}) {text}" for letter, text in texts.items())
            reply = puzzle.answer
            question = " ".join([question, *lettered])
        else:
            steps.append(verdict(draw, puzzle))
        skeleton = f"{family.__name__}/{kind}/{'.'.join(map(str, draw.marks))}"
        facts = {"answer": label, "labels": LABELS[kind], "options": texts, "skeleton": skeleton}
        body = f"Question: {' '.join(puzzle.facts)} {question}\nAnswer:"
        return Example(kind, body, f" {' '.join(steps)} So the answer is {reply}.\n", facts)

    def score(self, example: Example, text: str) -> float:
        """1 where the answer behind the trigger is the right label or option's text, else 0."""
        reply = text.partition("\nQuestion:")[0]
        label = final_choice(reply, example.facts["labels"], example.facts["options"])
        return float(label == example.facts["answer"])


def draw_puzzle(
    rng: random.Random, split: Split, family: Callable[[Draw], Puzzle], truth: bool | None
) -> tuple[Draw, Puzzle]:
    """A puzzle of a family whose skeleton belongs to the split."""
    while True:
        draw = Draw(rng, split, truth)
        puzzle = family(draw)
        if draw.reserved == (split == "held_out"):
            return draw, puzzle


def options(draw: Draw, puzzle: Puzzle, label: str) -> dict[str, str]:
    """Four lettered options, the right one at `label`.

    Wrong answers from the facts go before words from outside.
    """
    wrong = draw.shuffled(puzzle.wrong)[:3]
    wrong += draw.sample(but(puzzle.pool, puzzle.answer, *wrong), 3 - len(wrong))
    position = LABELS["multiple"].index(label)
    texts = [*wrong[:position], puzzle.answer, *wrong[position:]]
    return dict(zip(LABELS["multiple"], texts, strict=True))


def conclusion(draw: Draw, puzzle: Puzzle) -> str:
    """What follows from the facts, as a sentence."""
    return capital(f"{draw.some(words().leads)}{puzzle.conclusion}.")


def verdict(draw: Draw, puzzle: Puzzle) -> str:
    """What the facts say, and whether the question says the same."""
    claim = f"{draw.candidate} {'indeed' if draw.truth else 'instead'}"
    return f"The facts say {puzzle.answer} indeed. The question says {claim}."
