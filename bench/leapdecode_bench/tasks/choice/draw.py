"""What the families of `choice` puzzles share: words, the record of a puzzle's form, the puzzle."""

import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leapdecode_bench.tasks.base import Split
from leapdecode_bench.tasks.data import load_toml


@dataclass(frozen=True)
class Words:
    """The tables of `words.toml`."""

    women: list[str]
    men: list[str]
    rooms: list[str]
    places: list[str]
    colours: list[str]
    days: list[str]
    things: list[str]
    goods: list[str]
    owned: list[str]
    small: list[str]
    holders: list[str]
    events: list[str]
    vehicles: list[str]
    pets: list[str]
    kinds: list[str]
    foods: list[str]
    homes: list[str]
    leads: list[str]

    @functools.cached_property
    def names(self) -> list[str]:
        return self.women + self.men


@dataclass(frozen=True)
class Asks:
    """The wordings of one question, open and as a claim.

    Those called `held_out` are used in that split only.
    """

    open: list[str]
    claim: list[str]
    open_held_out: list[str] = field(default_factory=list)
    claim_held_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Text:
    """What one family says: its questions, and patterns by the place that they have in a puzzle."""

    asks: dict[str, Asks]
    patterns: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.patterns[name]


@functools.cache
def words() -> Words:
    """What puzzles are about, read once."""
    return Words(**load_toml("choice/words.toml"))


@functools.cache
def texts(file: str) -> dict[str, Text]:
    """What the families of one file say, by their names: those of `orders.py` from "orders"."""
    by_family = {}
    for family, patterns in load_toml(f"choice/{file}.toml").items():
        asks = {name: Asks(**table) for name, table in patterns["asks"].items()}
        by_family[family] = Text(asks, patterns)
    return by_family


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
