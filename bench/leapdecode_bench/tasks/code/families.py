"""Small functions outside the grammar: each family is one function in several wordings and bodies.

The texts of a family are in `families.toml`. Here are, by its first name, arguments to try it on
(`INPUTS`) and what it must return for them (`REFERENCES`), which no body of it computes.
"""

import contextlib
import functools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

from leapdecode_bench.tasks.code.arguments import Call
from leapdecode_bench.tasks.code.functions import Written, docstring
from leapdecode_bench.tasks.code.grammar import grammar
from leapdecode_bench.tasks.data import load_toml

Inputs = Callable[[random.Random], tuple[Any, ...]]
YEARS = (1900, 2000, 2100, 2400)  # where the rules of a leap year show
PRIMES = (2, 3, 4, 9, 9, 13, 25, 29)  # primes, and squares of primes
WORDS = (("stone", "notes"), ("area", "aera"), ("sun", "nus"), ("aab", "abb"), ("oak", "oaks"))


def numbers(rng: random.Random) -> list[int]:
    """A few numbers."""
    return [rng.randint(-9, 20) for _ in range(rng.randint(1, 6))]


def several(rng: random.Random) -> tuple[list[int]]:
    """A list of numbers."""
    return (numbers(rng),)


def repeated(rng: random.Random, fewest: int = 0) -> tuple[list[int]]:
    """A list of numbers some of which are equal."""
    return ([rng.randint(1, 4) for _ in range(rng.randint(fewest, 7))],)


def two_lists(rng: random.Random) -> tuple[list[int], list[int]]:
    """Two lists of the same length."""
    size = rng.randint(0, 5)
    return [rng.randint(0, 6) for _ in range(size)], [rng.randint(0, 6) for _ in range(size)]


def integer(low: int, high: int) -> Inputs:
    """One number."""
    return lambda rng: (rng.randint(low, high),)


def pair(low: int, high: int) -> Inputs:
    """Two numbers."""
    return lambda rng: (rng.randint(low, high), rng.randint(low, high))


def words(rng: random.Random) -> list[str]:
    """A few words, or none."""
    return [rng.choice(grammar().words) for _ in range(rng.randint(0, 6))]


def word_list(rng: random.Random) -> tuple[list[str]]:
    """A list of words."""
    return (words(rng),)


def sentence(rng: random.Random) -> tuple[str]:
    """Words as one text."""
    return (" ".join(words(rng)),)


def text(rng: random.Random) -> tuple[str]:
    """A word, or a few."""
    pool = grammar().words
    single = rng.choice(pool)
    return (rng.choice((single, " ".join(rng.choice(pool) for _ in range(rng.randint(2, 4))))),)


def word(rng: random.Random) -> tuple[str]:
    """A word, now and then a very short one."""
    return (rng.choice((*grammar().words, "", "a", "ab")),)


def two_words(rng: random.Random) -> tuple[Any, ...]:
    """Two words, most of them with the same letters."""
    return rng.choice((*WORDS, tuple(rng.sample(grammar().words, 2))))


def table(rng: random.Random) -> tuple[dict[str, int]]:
    """A dictionary of numbers."""
    return ({key: rng.randint(1, 30) for key in rng.sample(grammar().words, rng.randint(1, 4))},)


def limited_table(rng: random.Random) -> tuple[dict[str, int], int]:
    """A dictionary of numbers and a limit, often one of them."""
    (numbers_by_key,) = table(rng)
    return numbers_by_key, rng.choice((*numbers_by_key.values(), rng.randint(5, 25)))


def two_tables(rng: random.Random) -> tuple[dict[str, int], ...]:
    """Two dictionaries that may share keys."""
    return tuple(
        {key: rng.randint(1, 9) for key in rng.sample("abcdef", rng.randint(0, 4))}
        for _ in range(2)
    )


def matrix(rng: random.Random) -> tuple[list[list[int]]]:
    """Rows of the same length."""
    width = rng.randint(1, 3)
    return ([[rng.randint(0, 9) for _ in range(width)] for _ in range(rng.randint(1, 3))],)


def perhaps_sorted(rng: random.Random) -> tuple[list[int]]:
    """Numbers, sorted in every other list."""
    return (sorted(numbers(rng)) if rng.random() < 0.5 else numbers(rng),)


INPUTS: dict[str, Inputs] = {
    "gcd": pair(1, 40),
    "lcm": pair(1, 12),
    "factorial": integer(0, 12),
    "fib": integer(0, 12),
    "is_prime": lambda rng: (rng.choice((rng.randint(0, 40), *PRIMES)),),
    "clamp": lambda rng: (rng.randint(-5, 25), rng.randint(0, 8), rng.randint(9, 20)),
    "sign": lambda rng: (rng.choice((0, rng.randint(-9, 9))),),
    "power": lambda rng: (rng.randint(-4, 9), rng.randint(0, 5)),
    "is_leap_year": lambda rng: (rng.choice((rng.randint(1990, 2030), *YEARS)),),
    "largest_of_three": lambda rng: tuple(rng.randint(-9, 20) for _ in range(3)),
    "reverse": text,
    "is_palindrome": text,
    "reverse_words": sentence,
    "capitalise_words": sentence,
    "swap_ends": word,
    "rotate": lambda rng: (
        [rng.randint(0, 9) for _ in range(rng.randint(4, 6))],
        rng.randint(0, 4),
    ),
    "flatten": lambda rng: ([numbers(rng) for _ in range(rng.randint(0, 3))],),
    "running_totals": several,
    "differences": several,
    "dot": two_lists,
    "add_lists": two_lists,
    "common": two_lists,
    "without": two_lists,
    "unique": repeated,
    "has_duplicates": repeated,
    "count_items": repeated,
    "most_common": lambda rng: repeated(rng, fewest=1),
    "group_by_length": word_list,
    "lengths": word_list,
    "invert": table,
    "best_key": table,
    "keep_above": limited_table,
    "merge": two_tables,
    "second_largest": repeated,
    "is_sorted": perhaps_sorted,
    "index_of": lambda rng: (
        [rng.randint(0, 6) for _ in range(rng.randint(0, 6))],
        rng.randint(0, 6),
    ),
    "chunks": lambda rng: (numbers(rng), rng.randint(1, 4)),
    "transpose": matrix,
    "collatz": integer(1, 60),
    "digit_sum": integer(0, 9999),
    "to_binary": lambda rng: (rng.choice((rng.randint(0, 70), 0, 1)),),
    "divisors": integer(1, 60),
    "prime_factors": integer(1, 60),
    "hamming": two_lists,
    "are_anagrams": two_words,
    "countdown": integer(0, 12),
    "interleave": two_lists,
    "average": repeated,
}


def fibonacci(n: int) -> int:
    """The Fibonacci number at position `n`, from 0 and 1 on."""
    first, second = 0, 1
    for _ in range(n):
        first, second = second, first + second
    return first


def is_prime(n: int) -> bool:
    """Whether `n` is a prime."""
    return n > 1 and all(n % d for d in range(2, n))


def prime_factors(n: int) -> list[int]:
    """The prime factors of `n` (below 128), in order."""
    primes = [p for p in range(2, n + 1) if is_prime(p)]
    return [p for p in primes for exponent in range(1, 7) if n % p**exponent == 0]


def steps_to_one(n: int) -> int:
    """The number of Collatz steps from `n` to 1."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def by_length(words: list[str]) -> dict[int, list[str]]:
    """The words of each length."""
    return {
        len(word): [same_length for same_length in words if len(same_length) == len(word)]
        for word in words
    }


def added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Two dictionaries as one, the values of equal keys added."""
    return {key: first.get(key, 0) + second.get(key, 0) for key in [*first, *second]}


def pieces(items: list[Any], size: int) -> list[list[Any]]:
    """The items in lists of `size`."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def running_totals(values: list[int]) -> list[int]:
    """The sums of the first 1, 2, 3, ... values."""
    return [sum(values[: end + 1]) for end in range(len(values))]


NUMBERS: dict[str, Callable[..., Any]] = {
    "gcd": math.gcd,
    "lcm": math.lcm,
    "factorial": math.factorial,
    "fib": fibonacci,
    "is_prime": is_prime,
    "clamp": lambda x, low, high: max(low, min(x, high)),
    "sign": lambda n: (n > 0) - (n < 0),
    "power": pow,
    "is_leap_year": lambda year: year % 4 == 0 and (year % 100 != 0 or year % 400 == 0),
    "largest_of_three": max,
    "collatz": steps_to_one,
    "digit_sum": lambda n: sum(map(int, str(n))),
    "to_binary": lambda n: f"{n:b}",
    "divisors": lambda n: [d for d in range(1, n + 1) if n % d == 0],
    "prime_factors": prime_factors,
    "countdown": lambda n: list(range(n, 0, -1)),
}
TEXTS: dict[str, Callable[..., Any]] = {
    "reverse": lambda s: s[::-1],
    "is_palindrome": lambda s: s == s[::-1],
    "reverse_words": lambda s: " ".join(s.split()[::-1]),
    "capitalise_words": lambda s: " ".join(word.capitalize() for word in s.split()),
    "swap_ends": lambda s: s if len(s) < 2 else s[-1] + s[1:-1] + s[0],
    "group_by_length": by_length,
    "lengths": lambda words: {word: len(word) for word in words},
    "are_anagrams": lambda a, b: sorted(a) == sorted(b),
}
LISTS: dict[str, Callable[..., Any]] = {
    "rotate": lambda items, k: items[k:] + items[:k],
    "flatten": lambda rows: [item for row in rows for item in row],
    "running_totals": running_totals,
    "differences": lambda v: [v[place] - v[place - 1] for place in range(1, len(v))],
    "unique": lambda values: list(dict.fromkeys(values)),
    "has_duplicates": lambda values: len(set(values)) < len(values),
    "count_items": lambda values: dict(Counter(values)),
    "most_common": lambda values: max(values, key=values.count),
    "second_largest": lambda values: max((x for x in values if x != max(values)), default=None),
    "is_sorted": lambda values: values == sorted(values),
    "index_of": lambda items, target: items.index(target) if target in items else -1,
    "chunks": pieces,
    "transpose": lambda rows: [list(column) for column in zip(*rows, strict=True)],
    "average": lambda values: sum(values) / len(values) if values else 0,
}
TWO_LISTS: dict[str, Callable[..., Any]] = {
    "dot": lambda a, b: sum(x * y for x, y in zip(a, b, strict=True)),
    "add_lists": lambda a, b: [x + y for x, y in zip(a, b, strict=True)],
    "common": lambda a, b: [x for x in a if x in b],
    "without": lambda a, b: [x for x in a if x not in b],
    "hamming": lambda a, b: sum(x != y for x, y in zip(a, b, strict=True)),
    "interleave": lambda a, b: [item for both in zip(a, b, strict=True) for item in both],
}
TABLES: dict[str, Callable[..., Any]] = {
    "invert": lambda table: {value: key for key, value in table.items()},
    "best_key": lambda table: max(table, key=table.get),
    "keep_above": lambda table, limit: {k: v for k, v in table.items() if v > limit},
    "merge": added,
}
REFERENCES = {**NUMBERS, **TEXTS, **LISTS, **TWO_LISTS, **TABLES}

# Families whose documents leave open what happens at an edge, or that would never end there.
OPEN_EDGES = frozenset(("gcd", "lcm", "clamp", "rotate", "transpose", "collatz"))
# Nothing, zero, one, the square of a prime.
EDGES: dict[type, list[Any]] = {int: [0, 1, 2, 25], list: [[]], str: ["", "a"], dict: [{}]}
CALLS = 6


@dataclass(frozen=True)
class Family:
    """One function: its names, its arguments (a row is one choice), documents and bodies.

    Documents go without "Return" and the full stop where they start with a small letter.
    """

    names: list[str]
    arguments: list[list[str]]
    documents: list[str]
    bodies: list[str]

    @property
    def key(self) -> str:
        return self.names[0]


@functools.cache
def families() -> tuple[Family, ...]:
    """All families, read once."""
    tables = load_toml("code/families.toml")
    shared = tables["arguments"]
    return tuple(_family(table, shared) for table in tables["family"])


def _family(table: dict[str, Any], shared: dict[str, list[list[str]]]) -> Family:
    arguments = table["arguments"]  # names of its own, or what several families have
    rows = shared[arguments] if isinstance(arguments, str) else arguments
    return Family(**table | {"arguments": rows})


def write_family(rng: random.Random, held_out: bool) -> Written:
    """One of the families, in a wording of one split."""
    family = rng.choice(families())
    choices = family.documents[-1:] if held_out else family.documents[:-1]
    document, name = rng.choice(choices), rng.choice(family.names)
    arguments = rng.choice(family.arguments)
    names = dict(zip("abc", arguments, strict=False)) | {"f": name}
    for local, pool in load_toml("code/families.toml")["locals"].items():
        names[local] = rng.choice([word for word in pool if word not in names.values()])
    sentence = Template(document).substitute(names) + "."
    sentence = sentence if document[0].isupper() else f"Return {sentence}"
    tests = calls(rng, family)
    head = f"def {name}({', '.join(arguments)}):\n" + docstring(rng, name, sentence, tests)
    tests += edges(family, tests[0][0])
    lines = Template(rng.choice(family.bodies)).substitute(names).split("\n")
    body = "".join(f"\n    {line}" for line in lines) + "\n"
    wording = f"{family.key}: {document}"
    return Written(head, body, name, tests, f"family/{family.key}", wording)


def calls(rng: random.Random, family: Family) -> list[Call]:
    """Six calls with their results, of which not all are the same."""
    inputs, reference = INPUTS[family.key], REFERENCES[family.key]
    while True:
        drawn = [inputs(rng) for _ in range(CALLS)]
        tests = [(arguments, reference(*arguments)) for arguments in drawn]
        if len({repr(expected) for _, expected in tests}) > 1:
            return tests


def edges(family: Family, arguments_of_call: tuple[Any, ...]) -> list[Call]:
    """Calls with one of its arguments at an edge, with results."""
    if family.key in OPEN_EDGES:
        return []
    reference = REFERENCES[family.key]
    edge_calls = []
    for position, argument in enumerate(arguments_of_call):
        for edge in EDGES.get(type(argument), []):
            arguments = (*arguments_of_call[:position], edge, *arguments_of_call[position + 1 :])
            # Where it is not defined, there is no call.
            with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
                edge_calls.append((arguments, reference(*arguments)))
    return edge_calls
