"""Questions whose facts are told in the question: four lettered options, or yes and no, with a short rationale.

The two splits share their words but not their skeletons: a fifth of the combinations of relation, number of steps,
order, fact wording and question wording is held out, with question wordings of its own.
"""

import random
from typing import ClassVar

from leapdecode.tasks.answers import final_choice
from leapdecode.tasks.base import Example, Split, Task
from leapdecode.tasks.choice_chains import CHAINS
from leapdecode.tasks.choice_draw import Draw, Puzzle, capital
from leapdecode.tasks.choice_tables import TABLES

LABELS = {"multiple": ["a", "b", "c", "d"], "yes_no": ["yes", "no"]}
FAMILIES = [*CHAINS, *TABLES]
LEADS = ["Therefore ", "Thus ", "This means that ", "Hence ", "It follows that ", ""]
SAYS = ["The question says {x}, which is {verdict}.", "{x} is what the question says: {verdict}."]


class Choice(Task):
    """Short reasoning from stated facts, ending in "So the answer is (b)." or "So the answer is yes."."""

    name: ClassVar[str] = "choice"
    summary: ClassVar[str] = "stated facts, a short rationale, a lettered option or yes/no"
    kinds: ClassVar[tuple[str, ...]] = ("multiple", "yes_no")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        label = rng.choice(LABELS[kind])  # first, so that the answers stay balanced whatever is drawn next
        family = rng.choice(FAMILIES)
        while True:
            draw = Draw(rng, split, None if kind == "multiple" else label == "yes")
            puzzle = family(draw)
            if draw.reserved == (split == "held_out"):
                break
        shown, asked, steps = label, puzzle.question, [*puzzle.steps, conclusion(draw, puzzle)]
        if kind == "multiple":
            texts = options(draw, puzzle, label)
            shown, asked = f"({label})", f"{asked} Choose {', '.join(f'{text} ({at})' for at, text in texts.items())}."
            steps.append(f"That is {texts[label]} ({label}).")
        else:
            verdict = "right" if draw.truth else "wrong"
            steps.append(capital(draw.some(SAYS).format(x=draw.candidate, verdict=verdict)))
        skeleton = f"{family.__name__}/{kind}/{'.'.join(map(str, draw.marks))}"
        return Example(
            kind,
            f"Question: {' '.join(puzzle.facts)} {asked}\nAnswer:",
            f" {' '.join(steps)} So the answer is {shown}.\n",
            {"answer": label, "labels": LABELS[kind], "skeleton": skeleton},
        )

    def score(self, example: Example, text: str) -> float:
        """1 where the last sentence of the rationale names the right label, else 0."""
        return float(final_choice(text, example.facts["labels"]) == example.facts["answer"])


def options(draw: Draw, puzzle: Puzzle, label: str) -> dict[str, str]:
    """Four lettered options, the right one at `label`; wrong answers from the facts go before words from outside."""
    wrong = draw.shuffled(puzzle.wrong)[:3]
    outside = [word for word in puzzle.pool if word != puzzle.answer and word not in wrong]
    wrong += draw.sample(outside, 3 - len(wrong))
    place = LABELS["multiple"].index(label)
    texts = [*wrong[:place], puzzle.answer, *wrong[place:]]
    return dict(zip(LABELS["multiple"], texts, strict=True))


def conclusion(draw: Draw, puzzle: Puzzle) -> str:
    """What follows from the facts, as a sentence."""
    return capital(f"{draw.some(LEADS)}{puzzle.conclusion}.")
