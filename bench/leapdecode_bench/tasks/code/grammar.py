"""Small functions put together from parts.

The parts are: which elements, which of them, what becomes of each, what comes out.

"Return the sum of the squares of the even numbers in values." is a source (a list of numbers), a
predicate (even), a map (squares) and an aggregate (sum). Each part brings its words and its code,
which are in `grammar.toml`, and the same thing as a Python callable, which is in `meaning.py`.
"""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from leapdecode_bench.tasks.code import meaning
from leapdecode_bench.tasks.data import load_toml


@dataclass(frozen=True)
class Predicate:
    """A property of an element `$x`, perhaps with an operand `$k`.

    Words: `adjective` before the noun, `complements` after "are" or after the noun (`singular`
    after "is", where that differs), `noun` instead of the noun, `verbs` (singular, plural, -ing).
    `operand` is what `$k` is: "number", "divisor", "length", "letter"; empty without one.
    """

    key: str
    code: list[str]
    negated: list[str]
    adjective: str = ""
    complements: list[str] = field(default_factory=list)
    verbs: list[str] = field(default_factory=list)
    noun: str = ""
    singular: str = ""
    operand: str = ""

    def check(self, element: Any, operand: Any) -> bool:
        """Whether an element has the property."""
        return meaning.CHECKS[self.key](element, operand)


@dataclass(frozen=True)
class Map:
    """What becomes of an element `$x`, perhaps with a literal operand `$m`.

    Its words stand before or after the elements.
    """

    key: str
    code: list[str]
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def change(self, element: Any, operand: int) -> Any:
        """What becomes of an element."""
        return meaning.CHANGES[self.key](element, operand)


@dataclass(frozen=True)
class Source:
    """Where elements come from: the argument `$s`, its expression in code, its words.

    `kind` is what they are: "number", "word" or "char". `predicates` and `maps` are the keys of
    those that fit, None for all of that kind. `noun` is in the singular and in the plural.
    """

    key: str
    kind: str
    code: list[str]
    noun: list[str]
    places: list[str]
    arguments: list[str]
    variables: list[str]
    aggregates: list[str]
    predicates: list[str] | None = None
    maps: list[str] | None = None

    def fitting_predicates(self) -> list[Predicate]:
        """What its elements can be."""
        every = grammar().predicates[self.kind]
        return [part for part in every if self.predicates is None or part.key in self.predicates]

    def fitting_maps(self) -> list[Map]:
        """What can become of its elements."""
        every = grammar().maps[self.kind]
        return [part for part in every if self.maps is None or part.key in self.maps]

    def elements(self, argument: Any) -> Iterable[Any]:
        """The elements that an argument holds."""
        return meaning.ELEMENTS[self.key](argument)


@dataclass(frozen=True)
class Aggregate:
    """What comes out. `nouns` follow "Return" or the like, `orders` stand alone.

    `$T` is what is aggregated. `maps` says whether a map in front of it makes sense, `filter`
    whether it needs a predicate.
    """

    key: str
    nouns: list[str]
    orders: list[str] = field(default_factory=list)
    maps: bool = True
    filter: bool = False

    def result(self, values: list[Any]) -> Any:
        """What comes out of the values."""
        return meaning.RESULTS[self.key](values)


@dataclass(frozen=True)
class Grammar:
    """All parts, those of an element by its kind, and the words that are no part's own.

    `grammar.toml` explains them.
    """

    sources: list[Source]
    predicates: dict[str, list[Predicate]]
    maps: dict[str, list[Map]]
    aggregates: list[Aggregate]
    openers: list[str]
    truth_openers: list[str]
    results: list[str]
    chosen: list[str]
    vague_names: list[str]
    words: list[str]
    characters: str
    operands: dict[str, list[str]]
    named: dict[str, str]
    named_first: dict[str, str]


@functools.cache
def grammar() -> Grammar:
    """The grammar, read once."""
    tables = load_toml("code/grammar.toml")
    predicates, maps = tables["predicates"], tables["maps"]
    parts: dict[str, Any] = {
        "sources": [Source(**table) for table in tables["sources"]],
        "predicates": {
            kind: [Predicate(**table) for table in predicates[kind]] for kind in predicates
        },
        "maps": {kind: [Map(**table) for table in maps[kind]] for kind in maps},
        "aggregates": [Aggregate(**table) for table in tables["aggregates"]],
    }
    return Grammar(**tables | parts)
