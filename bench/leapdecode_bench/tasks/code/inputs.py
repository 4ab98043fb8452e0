"""Arguments to try the functions of `families.toml` on, by the first name of each."""

import random
from collections.abc import Callable
from typing import Any

from leapdecode_bench.tasks.code.grammar import grammar

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
