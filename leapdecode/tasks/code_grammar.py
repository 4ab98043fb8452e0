"""Small functions put together from parts: which elements, which of them, what becomes of each, what comes out.

"Return the sum of the squares of the even numbers in values." is a source (a list of numbers), a predicate (even), a
map (squares) and an aggregate (sum). Each part brings its words, its code and the same thing as a Python callable,
from which the expected results are computed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Check = Callable[[Any, Any], bool]
Change = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Predicate:
    """A property of an element `$x`, perhaps with an operand `$k`.

    Words: `adjective` before the noun, `complements` after "are" or after the noun (`singular` after "is", where that
    differs), `noun` instead of the noun, `verbs` (singular, plural, -ing).
    """

    key: str
    check: Check
    code: tuple[str, ...]
    negated: tuple[str, ...]
    adjective: str = ""
    complements: tuple[str, ...] = ()
    verbs: tuple[str, str, str] | None = None
    noun: str = ""
    singular: str = ""
    operand: str = ""  # what `$k` is: "number", "divisor", "length", "letter"; empty without one


@dataclass(frozen=True)
class Map:
    """What becomes of an element `$x`, perhaps with a literal operand `$m`: words before or after the elements."""

    key: str
    change: Change
    code: tuple[str, ...]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where elements come from: the argument `$s`, its expression in code, its words."""

    key: str
    elements: Callable[[Any], Iterable[Any]]
    code: tuple[str, ...]
    noun: tuple[str, str]  # singular, plural
    places: tuple[str, ...]
    arguments: tuple[str, ...]
    variables: tuple[str, ...]
    predicates: tuple[str, ...]
    maps: tuple[str, ...]
    aggregates: tuple[str, ...]


@dataclass(frozen=True)
class Aggregate:
    """What comes out. `nouns` follow "Return" or the like, `orders` stand alone; `$T` is what is aggregated."""

    key: str
    result: Callable[[list[Any]], Any]
    nouns: tuple[str, ...]
    orders: tuple[str, ...] = ()
    maps: bool = True  # whether a map in front of it makes sense
    filter: bool = False  # whether it needs a predicate


NUMBER_PREDICATES = (
    Predicate("even", lambda x, k: x % 2 == 0, ("$x % 2 == 0",), ("$x % 2 != 0", "$x % 2 == 1"), "even", ("even",)),
    Predicate("odd", lambda x, k: x % 2 == 1, ("$x % 2 == 1", "$x % 2 != 0"), ("$x % 2 == 0",), "odd", ("odd",)),
    Predicate("positive", lambda x, k: x > 0, ("$x > 0",), ("$x <= 0",), "positive", ("positive", "above zero")),
    Predicate("negative", lambda x, k: x < 0, ("$x < 0",), ("$x >= 0",), "negative", ("negative", "below zero")),
    Predicate("nonzero", lambda x, k: x != 0, ("$x != 0",), ("$x == 0",), "nonzero", ("different from zero",)),
    Predicate(
        "greater", lambda x, k: x > k, ("$x > $k",), ("$x <= $k",), "",
        ("greater than $k", "above $k", "larger than $k"), operand="number",
    ),
    Predicate(
        "less", lambda x, k: x < k, ("$x < $k",), ("$x >= $k",), "",
        ("less than $k", "below $k", "smaller than $k"), operand="number",
    ),
    Predicate("at_least", lambda x, k: x >= k, ("$x >= $k",), ("$x < $k",), "", ("at least $k",), operand="number"),
    Predicate("at_most", lambda x, k: x <= k, ("$x <= $k",), ("$x > $k",), "", ("at most $k",), operand="number"),
    Predicate(
        "multiple", lambda x, k: x % k == 0, ("$x % $k == 0",), ("$x % $k != 0",), "",
        ("divisible by $k",), operand="divisor",
    ),
    Predicate(
        "different", lambda x, k: x != k, ("$x != $k",), ("$x == $k",), "",
        ("different from $k", "not equal to $k"), operand="number",
    ),
)  # fmt: skip
WORD_PREDICATES = (
    Predicate(
        "longer", lambda x, k: len(x) > k, ("len($x) > $k",), ("len($x) <= $k",), "",
        ("longer than $k",), operand="length",
    ),
    Predicate(
        "shorter", lambda x, k: len(x) < k, ("len($x) < $k",), ("len($x) >= $k",), "",
        ("shorter than $k",), operand="length",
    ),
    Predicate(
        "start", lambda x, k: x.startswith(k), ("$x.startswith($k)", "$x[0] == $k"), ("$x[0] != $k",), "", (),
        ("starts with $k", "start with $k", "starting with $k"), operand="letter",
    ),
    Predicate(
        "end", lambda x, k: x.endswith(k), ("$x.endswith($k)", "$x[-1] == $k"), ("$x[-1] != $k",), "", (),
        ("ends with $k", "end with $k", "ending with $k"), operand="letter",
    ),
    Predicate(
        "contain", lambda x, k: k in x, ("$k in $x",), ("$k not in $x",), "", (),
        ("contains $k", "contain $k", "containing $k"), operand="letter",
    ),
    Predicate(
        "mirror", lambda x, k: x == x[::-1], ("$x == $x[::-1]",), ("$x != $x[::-1]",), "", (),
        ("reads the same backwards", "read the same backwards", "reading the same backwards"),
    ),
)  # fmt: skip
CHARACTER_PREDICATES = (
    Predicate(
        "vowel", lambda x, k: x in "aeiou", ('$x in "aeiou"',), ('$x not in "aeiou"',), "", ("vowels",),
        noun="vowels", singular="a vowel",
    ),
    Predicate(
        "digit", lambda x, k: x.isdigit(), ("$x.isdigit()",), ("not $x.isdigit()",), "", ("digits",),
        noun="digits", singular="a digit",
    ),
    Predicate(
        "letter", lambda x, k: x.isalpha(), ("$x.isalpha()",), ("not $x.isalpha()",), "", ("letters",),
        noun="letters", singular="a letter",
    ),
    Predicate(
        "upper", lambda x, k: x.isupper(), ("$x.isupper()",), ("not $x.isupper()",), "", ("capitals", "in upper case"),
        noun="capitals", singular="in upper case",
    ),
    Predicate("lower", lambda x, k: x.islower(), ("$x.islower()",), ("not $x.islower()",), "", ("in lower case",)),
    Predicate(
        "space", lambda x, k: x == " ", ('$x == " "', "$x.isspace()"), ('$x != " "', "not $x.isspace()"), "",
        ("spaces",), noun="spaces", singular="a space",
    ),
    Predicate(
        "same", lambda x, k: x == k, ("$x == $k",), ("$x != $k",), "", ("equal to $k",), operand="letter",
    ),
    Predicate(
        "other", lambda x, k: x != k, ("$x != $k",), ("$x == $k",), "", ("different from $k",), operand="letter",
    ),
)  # fmt: skip
NOTHING = Map("same", lambda x, m: x, ("$x",))
NUMBER_MAPS = (
    NOTHING,
    Map("squares", lambda x, m: x * x, ("$x * $x", "$x ** 2"), ("the squares of",), (", each squared",)),
    Map("cubes", lambda x, m: x**3, ("$x ** 3", "$x * $x * $x"), ("the cubes of",), (", each cubed",)),
    Map("doubles", lambda x, m: 2 * x, ("2 * $x", "$x * 2"), ("the doubles of",), (", each doubled",)),
    Map("negatives", lambda x, m: -x, ("-$x",), ("the negatives of",), (", each negated",)),
    Map("sizes", lambda x, m: abs(x), ("abs($x)",), ("the absolute values of",)),
    Map("times", lambda x, m: x * m, ("$x * $m", "$m * $x"), (), (", each multiplied by $m", ", each times $m")),
    Map("plus", lambda x, m: x + m, ("$x + $m",), (), (", each increased by $m", ", each plus $m")),
    Map("minus", lambda x, m: x - m, ("$x - $m",), (), (", each decreased by $m", ", each minus $m")),
    Map("rest", lambda x, m: x % m, ("$x % $m",), ("the remainders modulo $m of",)),
)
WORD_MAPS = (
    NOTHING,
    Map("upper", lambda x, m: x.upper(), ("$x.upper()",), (), (", in upper case", ", each in upper case")),
    Map("capital", lambda x, m: x.capitalize(), ("$x.capitalize()",), (), (", each capitalised",)),
    Map("reversed", lambda x, m: x[::-1], ("$x[::-1]",), (), (", each reversed", ", each spelled backwards")),
    Map("first_letter", lambda x, m: x[0], ("$x[0]",), ("the first letters of",)),
    Map("last_letter", lambda x, m: x[-1], ("$x[-1]",), ("the last letters of",)),
    Map("lengths", lambda x, m: len(x), ("len($x)",), ("the lengths of",)),
)
CHARACTER_MAPS = (
    NOTHING,
    Map("upper", lambda x, m: x.upper(), ("$x.upper()",), (), (", in upper case", ", each in upper case")),
    Map("lower", lambda x, m: x.lower(), ("$x.lower()",), (), (", in lower case", ", each in lower case")),
    Map("twice", lambda x, m: x * 2, ("$x * 2", "$x + $x"), (), (", each doubled", ", each written twice")),
)


def product(values: Iterable[int]) -> int:
    """The product of `values`; 1 for none."""
    result = 1
    for value in values:
        result *= value
    return result


AGGREGATES = (
    Aggregate("sum", sum, ("the sum of $T", "the total of $T"), ("Add up $T", "Sum $T")),
    Aggregate("product", product, ("the product of $T",), ("Multiply $T",)),
    Aggregate("count", len, ("the number of $P", "the count of $P"), ("Count $T",), maps=False, filter=True),
    Aggregate("list", list, ("a list of $T", "$T as a list"), ("List $T", "Collect $T in a list")),
    Aggregate("sorted", sorted, ("a sorted list of $T", "$T in sorted order"), ("Sort $T",)),
    Aggregate("set", set, ("the set of $T", "$T as a set"), ("Collect $T in a set",)),
    Aggregate(
        "largest",
        lambda v: max(v, default=None),
        ("the largest of $T, or None if there is none", "the maximum of $T, or None if there is none"),
    ),
    Aggregate(
        "smallest",
        lambda v: min(v, default=None),
        ("the smallest of $T, or None if there is none", "the least of $T, or None if there is none"),
    ),
    Aggregate("first", lambda v: v[0] if v else None, ("the first of $T, or None if there is none",), filter=True),
    Aggregate("last", lambda v: v[-1] if v else None, ("the last of $T, or None if there is none",), filter=True),
    Aggregate(
        "longest", lambda v: max(v, key=len, default=None), ("the longest of $T, or None if there is none",), maps=False
    ),
    Aggregate(
        "shortest",
        lambda v: min(v, key=len, default=None),
        ("the shortest of $T, or None if there is none",),
        maps=False,
    ),
    Aggregate("words", " ".join, ("$T joined by spaces", "a text of $T with spaces between"), ("Join $T by spaces",)),
    Aggregate("text", "".join, ("a text of $T", "$T as one text"), ("Join $T",)),
    Aggregate("any", any, ("whether any $A", "whether at least one $A"), maps=False, filter=True),
    Aggregate("all", all, ("whether every $A", "whether each $A"), maps=False, filter=True),
)
OPENERS = ("Return", "Compute", "Find", "Give", "Get")  # before the nouns of an aggregate
TRUTH_OPENERS = ("Return", "Check", "Tell", "Find out", "Say")

SIGNED = tuple(part.key for part in NUMBER_PREDICATES)
COUNTED = ("even", "odd", "greater", "less", "at_least", "at_most", "multiple", "different")
NUMBER_RESULTS = ("sum", "product", "count", "list", "sorted", "set", "largest", "smallest", "first", "last")
WORD_RESULTS = ("count", "list", "sorted", "set", "first", "last", "longest", "shortest", "words", "any", "all")
ALL_NUMBER_MAPS = tuple(part.key for part in NUMBER_MAPS)
COUNTED_MAPS = ("same", "squares", "cubes", "doubles", "times", "plus", "minus", "rest", "negatives")
ALL_WORD_MAPS = tuple(part.key for part in WORD_MAPS)
ALL_WORD_PREDICATES = tuple(part.key for part in WORD_PREDICATES)
SOURCES = (
    Source(
        "numbers", iter, ("$s",), ("number", "numbers"), ("in $s", "of $s", "in the list $s"),
        ("numbers", "values", "items", "data", "nums", "scores"), ("number", "value", "x", "item", "num"),
        SIGNED, ALL_NUMBER_MAPS, (*NUMBER_RESULTS, "any", "all"),
    ),
    Source(
        "values", lambda s: s.values(), ("$s.values()",), ("value", "values"), ("of $s", "in the dictionary $s"),
        ("prices", "counts", "table", "ages", "points"), ("value", "x", "number", "item"),
        SIGNED, ALL_NUMBER_MAPS, (*NUMBER_RESULTS, "any", "all"),
    ),
    Source(
        "range", lambda s: range(1, s + 1), ("range(1, $s + 1)",), ("number", "numbers"),
        ("from 1 to $s", "between 1 and $s", "up to $s"), ("n", "end", "last", "size", "top"),
        ("i", "number", "x", "j"), COUNTED, COUNTED_MAPS, NUMBER_RESULTS,
    ),
    Source(
        "digits", lambda s: map(int, str(s)), ("map(int, str($s))",), ("digit", "digits"),
        ("of $s", "in $s", "of the number $s"), ("n", "number", "code", "year"), ("digit", "d", "x"),
        COUNTED, COUNTED_MAPS, (*NUMBER_RESULTS, "any", "all"),
    ),
    Source(
        "words", iter, ("$s",), ("word", "words"), ("in $s", "of $s", "in the list $s"),
        ("words", "names", "items", "data", "strings"), ("word", "w", "x", "item", "name"),
        ALL_WORD_PREDICATES, ALL_WORD_MAPS, WORD_RESULTS,
    ),
    Source(
        "text", lambda s: s.split(), ("$s.split()",), ("word", "words"), ("in $s", "of $s", "of the text $s"),
        ("text", "line", "sentence", "message"), ("word", "w", "part", "x"),
        ALL_WORD_PREDICATES, ALL_WORD_MAPS, WORD_RESULTS,
    ),
    Source(
        "keys", iter, ("$s", "$s.keys()"), ("key", "keys"), ("of $s", "in the dictionary $s"),
        ("prices", "counts", "table", "ages", "points"), ("key", "name", "word", "k"),
        ALL_WORD_PREDICATES, ALL_WORD_MAPS, WORD_RESULTS,
    ),
    Source(
        "characters", iter, ("$s",), ("character", "characters"), ("in $s", "of $s", "of the text $s"),
        ("text", "line", "word", "string", "s"), ("char", "c", "letter", "ch"),
        tuple(part.key for part in CHARACTER_PREDICATES), tuple(part.key for part in CHARACTER_MAPS),
        ("count", "list", "set", "first", "last", "text", "any", "all"),
    ),
)  # fmt: skip
