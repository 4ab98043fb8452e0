"""What the functions of `families.toml` must return, by the first name of each.

Expected results come from here, never from running a body.
"""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any


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
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
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
    "lengths": lambda given: {word: len(word) for word in given},
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
    "invert": lambda given: {value: key for key, value in given.items()},
    "best_key": lambda given: max(given, key=given.get),
    "keep_above": lambda given, limit: {k: v for k, v in given.items() if v > limit},
    "merge": added,
}
REFERENCES = {**NUMBERS, **TEXTS, **LISTS, **TWO_LISTS, **TABLES}
