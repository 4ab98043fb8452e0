"""What the families of `choice` puzzles share: the words, the record of a puzzle's form, and the puzzle itself."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from leapdecode.tasks.base import Split

T = TypeVar("T")
RESERVED_SHARE = 5  # one combination in five is kept for the held-out split

WOMEN = ["Ann", "Carla", "Ella", "Grace", "Iris", "Kate", "Mia", "Olga", "Rosa", "Tina"]
MEN = ["Ben", "Dan", "Finn", "Hugo", "Jack", "Liam", "Noah", "Paul", "Sam", "Tom"]
NAMES = WOMEN + MEN
ROOMS = ["the kitchen", "the garden", "the garage", "the attic", "the cellar", "the office", "the bedroom", "the hall"]
PLACES = ["the library", "the market", "the museum", "the park", "the station", "the school", "the bakery", "the hotel"]
COLOURS = ["red", "blue", "green", "white", "black", "yellow", "brown", "grey"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
THINGS = ["kite", "ball", "book", "lamp", "drum", "clock", "map", "ring", "pen", "cup"]
GOODS = ["cards", "coins", "shells", "stamps", "books", "pens", "eggs", "toys"]


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def listed(words: Sequence[str], last: str = "and") -> str:
    """The words as a sentence lists them: `a`, `a and b`, `a, b and c`."""
    return f"{', '.join(words[:-1])} {last} {words[-1]}" if len(words) > 1 else words[0]


@dataclass
class Puzzle:
    """A puzzle before its options are lettered.

    `wrong` are the answers that occur in the facts; where they are fewer than an option list needs, `pool` fills up.
    The conclusion is a clause that still reads well with ", not OTHER" behind it.
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
    """The random choices behind one puzzle. Those made with `form` shape its sentences and are its skeleton.

    `truth` is None for a multiple-choice question, else the answer a yes/no question must have; `candidate` is the
    answer which that question names.
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
        """Whether this combination of forms belongs to the held-out split: every pair of forms stays in training."""
        return self.own_wording or sum((at % 4 + 1) * mark for at, mark in enumerate(self.marks)) % RESERVED_SHARE == 0

    def some(self, choices: Sequence[T]) -> T:
        """One of `choices`, off the record."""
        return self.rng.choice(choices)

    def sample(self, pool: Sequence[T], count: int) -> list[T]:
        return self.rng.sample(pool, count)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.rng.sample(items, len(items))

    def arranged(self, items: Sequence[T]) -> list[T]:
        """The items forwards, backwards or, where there are more than two, in another order; on record."""
        forwards, backwards = list(items), list(items)[::-1]
        order = self.form([forwards, backwards, []] if len(items) > 2 else [forwards, backwards])
        if order:
            return order
        while order in ([], forwards, backwards):
            order = self.shuffled(items)
        return order

    def question(self, answer: str, wrong: Sequence[str], asks: "Asks", **words: str) -> str:
        """The question's text. A yes/no question names one candidate `{x}`, set against another answer `{y}`."""
        if self.truth is None:
            return self.form(asks.open, asks.open_held_out).format(**words)
        other = self.some(wrong)
        self.candidate = answer if self.truth else other
        text = self.form(asks.claim, asks.claim_held_out)
        return text.format(x=self.candidate, y=other if self.truth else answer, **words)


@dataclass(frozen=True)
class Asks:
    """The wordings of one question, open and as a claim, with those that only the held-out split uses."""

    open: Sequence[str]
    claim: Sequence[str]
    open_held_out: Sequence[str] = ()
    claim_held_out: Sequence[str] = ()
