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


class Choice(Task):
    """Short reasoning from stated facts, ending in "So the answer is the park." or "So the answer is yes.".

    References name the option itself, not its letter: a small model copies, and a letter stands before what it would
    look for. The scorer takes either.
    """

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
        shown, asked, texts = label, puzzle.question, dict[str, str]()
        steps = [*puzzle.steps, conclusion(draw, puzzle)]
        if kind == "multiple":
            texts = options(draw, puzzle, label)
            shown, asked = puzzle.answer, " ".join([asked, *(f"({letter}) {text}" for letter, text in texts.items())])
        else:
            said = f"{draw.candidate} {'indeed' if draw.truth else 'instead'}"
            steps.append(f"The facts say {puzzle.answer} indeed. The question says {said}.")
        skeleton = f"{family.__name__}/{kind}/{'.'.join(map(str, draw.marks))}"
        return Example(
            kind,
            f"Question: {' '.join(puzzle.facts)} {asked}\nAnswer:",
            f" {' '.join(steps)} So the answer is {shown}.\n",
            {"answer": label, "labels": LABELS[kind], "options": texts, "skeleton": skeleton},
        )

    def score(self, example: Example, text: str) -> float:
        """1 where the answer behind the trigger is the right label or the right option's text, else 0."""
        reply = text.partition("\nQuestion:")[0]
        said = final_choice(reply, example.facts["labels"], example.facts["options"])
        return float(said == example.facts["answer"])


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
