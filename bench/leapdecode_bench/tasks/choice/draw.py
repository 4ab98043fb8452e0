"""What the families of `choice` puzzles share: the record of a puzzle's form, and the puzzle."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from leapdecode_bench.tasks.base import Split
from leapdecode_bench.tasks.choice.texts import Asks

T = TypeVar("T")
RESERVED_SHARE = 5  # one combination in five is kept for the held-out split


def but(words: Sequence[str], *without: str) -> list[str]:
    """The words without some of them."""
    return [word for word in words if word not in without]


@dataclass
class Puzzle:
    """A puzzle before its options are lettered.

    `wrong` are the answers that occur in the facts; where they are fewer than an option list needs,
    `pool` fills up. The conclusion is a clause that still reads well with ", not OTHER" behind it.
    """

    facts: list[str]
    question: str
    steps: list[str]
    conclusion: str
    answer: str
    wrong: list[str]
    pool: Sequence[str]


@dataclass
class Draw:
    """The random choices behind one puzzle.

    Those made with `form` shape its sentences and are its skeleton. `truth` is None for a
    multiple-choice question, else the answer a yes/no question must have; `candidate` is the answer
    which that question names.
    """

    rng: random.Random
    split: Split
    truth: bool | None
    marks: list[int] = field(default_factory=list)
    own_wording: bool = False
    candidate: str = ""

    def form(self, choices: Sequence[T], held_out: Sequence[T] = ()) -> T:
        """One of `choices`, on record; those of `held_out` are never drawn for training."""
        pool = [*choices, *held_out] if self.split == "held_out" else list(choices)
        index = self.rng.randrange(len(pool))
        self.own_wording |= index >= len(choices)
        self.marks.append(index)
        return pool[index]

    @property
    def reserved(self) -> bool:
        """Whether this combination of forms is for the held-out split.

        Every pair of forms stays in training.
        """
        total = sum((position % 4 + 1) * mark for position, mark in enumerate(self.marks))
        return self.own_wording or total % RESERVED_SHARE == 0

    def some(self, choices: Sequence[T]) -> T:
        """One of `choices`, off the record."""
        return self.rng.choice(choices)

    def say(self, patterns: Sequence[str], **fields: object) -> str:
        """One of the patterns, off the record, with its fields filled in."""
        return self.some(patterns).format(**fields)

    def sample(self, pool: Sequence[T], count: int) -> list[T]:
        """`count` different items of a pool, off the record."""
        return self.rng.sample(pool, count)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in any order, off the record."""
        return self.rng.sample(items, len(items))

    def arranged(self, items: Sequence[T]) -> list[T]:
        """The items forwards, backwards or, if more than two, in another order; on record."""
        forwards, backwards = list(items), list(items)[::-1]
        orders = [forwards, backwards, []] if len(items) > 2 else [forwards, backwards]
        order = self.form(orders)
        if order:
            return order
        while order in ([], forwards, backwards):
            order = self.shuffled(items)
        return order

    def question(self, answer: str, wrong: Sequence[str], asks: Asks, **words: str) -> str:
        """The question's text.

        A yes/no question names one candidate `{x}`, set against another answer `{y}`.
        """
        if self.truth is None:
            return self.form(asks.open, asks.open_held_out).format(**words)
        other_answer = self.some(wrong)
        self.candidate = answer if self.truth else other_answer
        text = self.form(asks.claim, asks.claim_held_out)
        return text.format(x=self.candidate, y=other_answer if self.truth else answer, **words)
