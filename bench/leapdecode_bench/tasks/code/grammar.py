"""Small functions put together from parts.

The parts are: which elements, which of them, what becomes of each, what comes out.

"Return the sum of the squares of the even numbers in values." is a source (a list of numbers), a
predicate (even), a map (squares) and an aggregate (sum). Each part brings its words and its code,
which are in `grammar.toml`, and the same thing as a Python callable, from which the expected
results come.
"""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from leapdecode_bench.tasks.data import load_toml

# Where elements come from.
ELEMENTS: dict[str, Callable[[Any], Iterable[Any]]] = {
    "numbers": iter,
    "values": lambda s: s.values(),
    "range": lambda s: range(1, s + 1),
    "digits": lambda s: map(int, str(s)),
    "words": iter,
    "text": lambda s: s.split(),
    "keys": iter,
    "characters": iter,
}
# What an element can be; `k` is the operand.
CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "even": lambda x, k: x % 2 == 0,
    "odd": lambda x, k: x % 2 == 1,
    "positive": lambda x, k: x > 0,
    "negative": lambda x, k: x < 0,
    "nonzero": lambda x, k: x != 0,
    "greater": lambda x, k: x > k,
    "less": lambda x, k: x < k,
    "at_least": lambda x, k: x >= k,
    "at_most": lambda x, k: x <= k,
    "multiple": lambda x, k: x % k == 0,
    "different": lambda x, k: x != k,
    "longer": lambda x, k: len(x) > k,
    "shorter": lambda x, k: len(x) < k,
    "start": lambda x, k: x.startswith(k),
    "end": lambda x, k: x.endswith(k),
    "contain": lambda x, k: k in x,
    "mirror": lambda x, k: x == x[::-1],
    "vowel": lambda x, k: x in "aeiou",
    "digit": lambda x, k: x.isdigit(),
    "letter": lambda x, k: x.isalpha(),
    "upper": lambda x, k: x.isupper(),
    "lower": lambda x, k: x.islower(),
    "space": lambda x, k: x == " ",
    "same": lambda x, k: x == k,
    "other": lambda x, k: x != k,
}
# What can become of an element; `m` is the operand.
CHANGES: dict[str, Callable[[Any, int], Any]] = {
    "same": lambda x, m: x,
    "squares": lambda x, m: x * x,
    "cubes": lambda x, m: x**3,
    "doubles": lambda x, m: 2 * x,
    "negatives": lambda x, m: -x,
    "sizes": lambda x, m: abs(x),
    "times": lambda x, m: x * m,
    "plus": lambda x, m: x + m,
    "minus": lambda x, m: x - m,
    "rest": lambda x, m: x % m,
    "upper": lambda x, m: x.upper(),
    "capital": lambda x, m: x.capitalize(),
    "reversed": lambda x, m: x[::-1],
    "first_letter": lambda x, m: x[0],
    "last_letter": lambda x, m: x[-1],
    "lengths": lambda x, m: len(x),
    "lower": lambda x, m: x.lower(),
    "twice": lambda x, m: x * 2,
}
# What comes out of all values; "any" and "all" are about the elements and need no values.
RESULTS: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "product": math.prod,
    "count": len,
    "list": list,
    "sorted": sorted,
    "set": set,
    "largest": lambda values: max(values, default=None),
    "smallest": lambda values: min(values, default=None),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
    "longest": lambda values: max(values, key=len, default=None),
    "shortest": lambda values: min(values, key=len, default=None),
    "words": " ".join,
    "text": "".join,
}


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
        return CHECKS[self.key](element, operand)


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
        return CHANGES[self.key](element, operand)


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
        return ELEMENTS[self.key](argument)


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
        return RESULTS[self.key](values)


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
