"""The parts that word problems are made of: what happens, how its sums are asked for and answered.

The sentences are in `events/`, one file for each world, and what they are about is in `words.toml`.

Fields of a sentence: {a} holds the running number {n}; {b}, {c} and {d} are other people; {x}
things, {box}/{one} a container; {k}, {m} and {g} are the numbers of this event; {times} is "twice"
or "3 times"; {eq} is the step's equation; {lead} restates the number so far.
"""

import functools
from dataclasses import dataclass
from typing import Any, Literal

from leapdecode_bench.tasks.data import load_toml

Place = Literal["start", "middle", "final"]
WORLD_SHARES = {"things": 8, "money": 5, "people": 4, "miles": 3, "pages": 2, "ages": 3}


@dataclass(frozen=True)
class Step:
    """One sum of an event: sentences that answer it, and sub-questions that ask for it."""

    answers: list[str]
    questions: list[str]


@dataclass(frozen=True)
class Event:
    """One part of a story.

    `sums` names how its numbers are made (see `sums.py`). `train` sentences are for both splits,
    `held_out` ones are never trained on and recombine words of the others. With `shift`, {c} takes
    the place of {a} from here on.
    """

    world: str
    name: str
    place: Place
    sums: str
    train: list[str]
    held_out: list[str]
    steps: tuple[Step, ...] = ()
    shift: bool = False


@dataclass(frozen=True)
class Words:
    """The tables of `words.toml`, where each of them is explained."""

    names: list[str]
    things: list[str]
    places: list[str]
    boxes: list[list[str]]
    reserved: frozenset[tuple[str, str]]
    needed: list[str]
    found: list[str]
    leads: dict[str, str]


@functools.cache
def words() -> Words:
    """What stories are about, read once."""
    tables = load_toml("math/words.toml")
    reserved = frozenset((first, second) for first, second in tables["reserved"])
    return Words(**tables | {"reserved": reserved})


@functools.cache
def events() -> tuple[Event, ...]:
    """Every event of every world, read once."""
    return tuple(
        _event(world, table)
        for world in WORLD_SHARES
        for table in load_toml(f"math/events/{world}.toml")["event"]
    )


@functools.cache
def events_at(world: str, place: Place) -> tuple[Event, ...]:
    """The events of one world that a story can start with, go on with, or end with."""
    return tuple(event for event in events() if (event.world, event.place) == (world, place))


def _event(world: str, table: dict[str, Any]) -> Event:
    steps = tuple(Step(**step) for step in table.get("steps", ()))
    return Event(**table | {"world": world, "steps": steps})
