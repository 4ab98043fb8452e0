"""The words of `choice` puzzles: what they are about, and what each family of puzzles says."""

import functools
from dataclasses import dataclass, field
from typing import Any

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
