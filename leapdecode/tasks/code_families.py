"""Small functions outside the grammar: each family is one function in several wordings and several bodies.

The last wording of every family is kept for held-out prompts. `$a`, `$b`, ... are the arguments, `$f` the function,
`$r`, `$x`, `$i`, `$v` names inside. Expected results come from `reference`, never from running a body.
"""

import contextlib
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

from leapdecode.tasks.code_write import WORDS, Written, docstring

LOCALS = {
    "r": ("result", "total", "answer", "found", "output"),
    "x": ("item", "x", "element", "entry"),
    "i": ("i", "index", "position", "j"),
    "v": ("value", "current", "other", "y"),
}
# What a documentation leaves open at 0 or at nothing, or what would never end there.
OPEN_EDGES = frozenset(("gcd", "lcm", "clamp", "rotate", "transpose", "collatz"))
EDGES: dict[type, list[Any]] = {int: [0, 1, 2, 25], list: [[]], str: ["", "a"], dict: [{}]}
Inputs = Callable[[random.Random], tuple[Any, ...]]


@dataclass(frozen=True)
class Family:
    """One function. `documents` go without "Return" and the full stop where they start with a small letter."""

    names: tuple[str, ...]
    arguments: tuple[tuple[str, ...], ...]  # one tuple of names is one choice
    documents: tuple[str, ...]
    bodies: tuple[str, ...]
    reference: Callable[..., Any]
    inputs: Inputs


NUMBERS = (("numbers",), ("values",), ("items",), ("data",), ("nums",))
TEXTS = (("text",), ("line",), ("word",), ("s",))
TWO_NUMBERS = (("a", "b"), ("x", "y"), ("first", "second"), ("m", "n"))
TWO_LISTS = (("a", "b"), ("first", "second"), ("left", "right"))
ONE = (("n",), ("number",), ("value",), ("k",))
TABLE = (("table",), ("prices",), ("counts",), ("points",), ("ages",))


def numbers(rng: random.Random) -> list[int]:
    return [rng.randint(-9, 20) for _ in range(rng.randint(1, 6))]


def several(rng: random.Random) -> tuple[list[int]]:
    return (numbers(rng),)


def repeated(rng: random.Random) -> tuple[list[int]]:
    return ([rng.randint(1, 4) for _ in range(rng.randint(0, 7))],)


def pair(rng: random.Random) -> tuple[int, int]:
    return rng.randint(1, 40), rng.randint(1, 40)


def two_lists(rng: random.Random) -> tuple[list[int], list[int]]:
    size = rng.randint(0, 5)
    return [rng.randint(0, 6) for _ in range(size)], [rng.randint(0, 6) for _ in range(size)]


def small(rng: random.Random) -> tuple[int]:
    return (rng.randint(0, 12),)


def natural(rng: random.Random) -> tuple[int]:
    return (rng.randint(1, 60),)


def words(rng: random.Random) -> list[str]:
    return [rng.choice(WORDS) for _ in range(rng.randint(0, 6))]


def text(rng: random.Random) -> tuple[str]:
    return (rng.choice((rng.choice(WORDS), " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 4))))),)


def table(rng: random.Random) -> tuple[dict[str, int]]:
    return ({word: rng.randint(1, 30) for word in rng.sample(WORDS, rng.randint(1, 4))},)


def limited_table(rng: random.Random) -> tuple[dict[str, int], int]:
    (given,) = table(rng)
    return given, rng.choice((*given.values(), rng.randint(5, 25)))


def with_number(low: int, high: int) -> Inputs:
    return lambda rng: (numbers(rng), rng.randint(low, high))


def fibonacci(n: int) -> int:
    first, second = 0, 1
    for _ in range(n):
        first, second = second, first + second
    return first


def is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, n))


def steps_to_one(n: int) -> int:
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def by_length(given: list[str]) -> dict[int, list[str]]:
    return {len(word): [other for other in given if len(other) == len(word)] for word in given}


def added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in [*first, *second]}


FAMILIES = (
    Family(
        ("gcd", "greatest_divisor", "common_divisor"), TWO_NUMBERS,
        ("the greatest common divisor of $a and $b", "the largest number that divides both $a and $b",
         "Find the greatest common divisor of $a and $b", "the greatest number that divides both $a and $b"),
        ("while $b:\n    $a, $b = $b, $a % $b\nreturn $a", "if $b == 0:\n    return $a\nreturn $f($b, $a % $b)",
         "for $v in range(min($a, $b), 0, -1):\n    if $a % $v == 0 and $b % $v == 0:\n        return $v"),
        math.gcd, pair,
    ),
    Family(
        ("lcm", "least_multiple", "common_multiple"), TWO_NUMBERS,
        ("the least common multiple of $a and $b", "the smallest number divisible by both $a and $b",
         "Find the smallest common multiple of $a and $b", "Find the smallest number divisible by both $a and $b"),
        ("$r = $a\nwhile $r % $b != 0:\n    $r += $a\nreturn $r",
         "$r = max($a, $b)\nwhile $r % $a or $r % $b:\n    $r += 1\nreturn $r"),
        math.lcm, lambda rng: (rng.randint(1, 12), rng.randint(1, 12)),
    ),
    Family(
        ("factorial", "product_up_to", "fact"), ONE,
        ("the factorial of $a", "the product of all numbers from 1 to $a", "Compute the factorial of $a",
         "Compute the product of all numbers from 1 to $a"),
        ("$r = 1\nfor $i in range(2, $a + 1):\n    $r *= $i\nreturn $r",
         "if $a < 2:\n    return 1\nreturn $a * $f($a - 1)",
         "$r = 1\nwhile $a > 1:\n    $r *= $a\n    $a -= 1\nreturn $r"),
        math.factorial, small,
    ),
    Family(
        ("fib", "fibonacci", "fibonacci_number"), ONE,
        ("the Fibonacci number at position $a, starting from 0 and 1", "the $a-th Fibonacci number, where fib(0) is 0",
         "Compute the Fibonacci number at position $a, starting from 0 and 1",
         "Compute the $a-th Fibonacci number, starting from 0 and 1"),
        ("$r, $v = 0, 1\nfor _ in range($a):\n    $r, $v = $v, $r + $v\nreturn $r",
         "if $a < 2:\n    return $a\nreturn $f($a - 1) + $f($a - 2)"),
        fibonacci, small,
    ),
    Family(
        ("is_prime", "prime", "check_prime"), ONE,
        ("whether $a is a prime number", "Check whether $a is prime", "Tell whether $a is a prime number",
         "whether $a is prime"),
        ("if $a < 2:\n    return False\nfor $i in range(2, $a):\n    if $a % $i == 0:\n        return False\nreturn True",
         "return $a > 1 and all($a % $i != 0 for $i in range(2, $a))",
         "if $a < 2:\n    return False\n$i = 2\nwhile $i * $i <= $a:\n    if $a % $i == 0:\n        return False\n"
         "    $i += 1\nreturn True"),
        is_prime, lambda rng: (rng.choice((rng.randint(0, 40), 2, 3, 4, 9, 9, 13, 25, 29)),),
    ),
    Family(
        ("clamp", "limit_to", "keep_between"), (("x", "low", "high"), ("value", "lower", "upper"), ("n", "least", "most")),
        ("$a limited to the range from $b to $c", "Keep $a between $b and $c", "Limit $a to the range from $b to $c",
         "Keep $a in the range from $b to $c"),
        ("return max($b, min($a, $c))",
         "if $a < $b:\n    return $b\nif $a > $c:\n    return $c\nreturn $a", "return min(max($a, $b), $c)"),
        lambda x, low, high: max(low, min(x, high)),
        lambda rng: (rng.randint(-5, 25), rng.randint(0, 8), rng.randint(9, 20)),
    ),
    Family(
        ("sign", "sign_of", "signum"), ONE,
        ("-1 if $a is negative, 1 if it is positive and 0 otherwise", "the sign of $a as -1, 0 or 1",
         "Tell the sign of $a as -1, 0 or 1", "Tell -1 if $a is negative, 1 if it is positive and 0 otherwise"),
        ("if $a < 0:\n    return -1\nif $a > 0:\n    return 1\nreturn 0", "return ($a > 0) - ($a < 0)",
         "if $a == 0:\n    return 0\nreturn 1 if $a > 0 else -1"),
        lambda n: (n > 0) - (n < 0), lambda rng: (rng.choice((0, rng.randint(-9, 9))),),
    ),
    Family(
        ("power", "to_the_power", "raise_to"), (("base", "exponent"), ("x", "n"), ("a", "k")),
        ("$a to the power of $b", "the product of $b copies of $a", "Raise $a to the power of $b",
         "Compute the product of $b copies of $a"),
        ("$r = 1\nfor _ in range($b):\n    $r *= $a\nreturn $r", "return $a ** $b",
         "if $b == 0:\n    return 1\nreturn $a * $f($a, $b - 1)"),
        pow, lambda rng: (rng.randint(-4, 9), rng.randint(0, 5)),
    ),
    Family(
        ("is_leap_year", "leap_year", "is_leap"), (("year",), ("y",), ("n",)),
        ("whether $a is a leap year", "Check whether the year $a is a leap year", "Tell whether $a is a leap year",
         "whether the year $a is a leap year"),
        ("if $a % 400 == 0:\n    return True\nif $a % 100 == 0:\n    return False\nreturn $a % 4 == 0",
         "return $a % 4 == 0 and ($a % 100 != 0 or $a % 400 == 0)"),
        lambda year: year % 4 == 0 and (year % 100 != 0 or year % 400 == 0),
        lambda rng: (rng.choice((rng.randint(1990, 2030), 1900, 2000, 2100, 2400)),),
    ),
    Family(
        ("largest_of_three", "max_of_three", "biggest"), (("a", "b", "c"), ("x", "y", "z"), ("first", "second", "third")),
        ("the largest of $a, $b and $c", "the biggest of the three numbers $a, $b and $c",
         "Find the biggest of $a, $b and $c", "Find the largest of the three numbers $a, $b and $c"),
        ("return max($a, $b, $c)", "$r = $a\nif $b > $r:\n    $r = $b\nif $c > $r:\n    $r = $c\nreturn $r",
         "if $a >= $b and $a >= $c:\n    return $a\nreturn max($b, $c)"),
        max, lambda rng: (rng.randint(-9, 20), rng.randint(-9, 20), rng.randint(-9, 20)),
    ),
    Family(
        ("reverse", "backwards", "reverse_text"), TEXTS,
        ("$a spelled backwards", "the characters of $a in reverse order", "Reverse the text $a",
         "Give the text $a spelled backwards"),
        ("return $a[::-1]", '$r = ""\nfor $x in $a:\n    $r = $x + $r\nreturn $r', 'return "".join(reversed($a))'),
        lambda s: s[::-1], text,
    ),
    Family(
        ("is_palindrome", "palindrome", "same_backwards"), TEXTS,
        ("whether $a is a palindrome", "whether $a reads the same backwards", "Check whether $a is a palindrome",
         "Check whether $a reads the same backwards"),
        ("return $a == $a[::-1]",
         "for $i in range(len($a) // 2):\n    if $a[$i] != $a[-1 - $i]:\n        return False\nreturn True"),
        lambda s: s == s[::-1], text,
    ),
    Family(
        ("reverse_words", "words_backwards", "flip_words"), (("text",), ("line",), ("sentence",)),
        ("$a with its words in reverse order", "the words of $a in reverse order, joined by spaces",
         "Reverse the order of the words in $a", "Give $a with its words in reverse order"),
        ('return " ".join($a.split()[::-1])', '$r = $a.split()\n$r.reverse()\nreturn " ".join($r)',
         '$r = []\nfor $x in $a.split():\n    $r.insert(0, $x)\nreturn " ".join($r)'),
        lambda s: " ".join(s.split()[::-1]), lambda rng: (" ".join(words(rng)),),
    ),
    Family(
        ("capitalise_words", "title", "capital_letters"), (("text",), ("line",), ("sentence",)),
        ("$a with every word capitalised", "$a with a capital first letter in every word",
         "Capitalise every word of $a", "Give $a with a capital first letter in every word"),
        ('return " ".join($x.capitalize() for $x in $a.split())',
         '$r = []\nfor $x in $a.split():\n    $r.append($x.capitalize())\nreturn " ".join($r)',
         '$r = [$x[0].upper() + $x[1:] for $x in $a.split()]\nreturn " ".join($r)'),
        lambda s: " ".join(word.capitalize() for word in s.split()), lambda rng: (" ".join(words(rng)),),
    ),
    Family(
        ("swap_ends", "exchange_ends", "swap_first_last"), TEXTS,
        ("$a with its first and last characters swapped", "$a with the first and the last character exchanged",
         "Swap the first and last characters of $a", "Exchange the first and last characters of $a"),
        ("if len($a) < 2:\n    return $a\nreturn $a[-1] + $a[1:-1] + $a[0]",
         "if len($a) > 1:\n    $a = $a[-1] + $a[1:-1] + $a[0]\nreturn $a"),
        lambda s: s if len(s) < 2 else s[-1] + s[1:-1] + s[0],
        lambda rng: (rng.choice((*WORDS, "", "a", "ab")),),
    ),
    Family(
        ("rotate", "rotate_left", "shift_left"), (("items", "k"), ("values", "n"), ("data", "steps")),
        ("$a rotated to the left by $b places", "the list $a with its first $b items moved to the end",
         "Rotate $a to the left by $b places", "the list $a rotated to the left by $b places"),
        ("return $a[$b:] + $a[:$b]", "$r = list($a)\nfor _ in range($b):\n    $r.append($r.pop(0))\nreturn $r"),
        lambda items, k: items[k:] + items[:k],
        lambda rng: ([rng.randint(0, 9) for _ in range(rng.randint(4, 6))], rng.randint(0, 4)),
    ),
    Family(
        ("flatten", "join_lists", "flat"), (("rows",), ("lists",), ("groups",), ("matrix",)),
        ("the items of all lists in $a as one list", "one list of the items of the lists in $a",
         "Join the lists in $a to one list", "Collect the items of all lists in $a in one list"),
        ("$r = []\nfor $x in $a:\n    $r.extend($x)\nreturn $r", "return [$v for $x in $a for $v in $x]",
         "$r = []\nfor $x in $a:\n    for $v in $x:\n        $r.append($v)\nreturn $r"),
        lambda rows: [item for row in rows for item in row],
        lambda rng: ([numbers(rng) for _ in range(rng.randint(0, 3))],),
    ),
    Family(
        ("running_totals", "partial_sums", "running_sum"), NUMBERS,
        ("the running totals of $a", "a list of the sums of the first 1, 2, 3, ... items of $a",
         "Compute the running totals of $a", "a list of the running totals of $a"),
        ("$v = 0\n$r = []\nfor $x in $a:\n    $v += $x\n    $r.append($v)\nreturn $r",
         "return [sum($a[: $i + 1]) for $i in range(len($a))]"),
        lambda values: [sum(values[: place + 1]) for place in range(len(values))], several,
    ),
    Family(
        ("differences", "steps_between", "gaps"), NUMBERS,
        ("the differences between neighbours in $a", "a list of each item of $a minus the item before it",
         "Compute the differences between neighbours in $a", "a list of the differences between neighbours in $a"),
        ("return [$a[$i] - $a[$i - 1] for $i in range(1, len($a))]",
         "$r = []\nfor $i in range(1, len($a)):\n    $r.append($a[$i] - $a[$i - 1])\nreturn $r",
         "return [$v - $x for $x, $v in zip($a, $a[1:])]"),
        lambda v: [v[place] - v[place - 1] for place in range(1, len(v))], several,
    ),
    Family(
        ("dot", "dot_product", "sum_of_products"), TWO_LISTS,
        ("the dot product of $a and $b", "the sum of the products of the items of $a and $b",
         "Compute the dot product of $a and $b", "Compute the sum of the products of the items of $a and $b"),
        ("return sum($x * $v for $x, $v in zip($a, $b))",
         "$r = 0\nfor $x, $v in zip($a, $b):\n    $r += $x * $v\nreturn $r",
         "$r = 0\nfor $i in range(len($a)):\n    $r += $a[$i] * $b[$i]\nreturn $r"),
        lambda a, b: sum(x * y for x, y in zip(a, b, strict=True)), two_lists,
    ),
    Family(
        ("add_lists", "pairwise_sums", "sums"), TWO_LISTS,
        ("a list of the sums of the items of $a and $b", "$a and $b added item by item",
         "Add the lists $a and $b item by item", "the lists $a and $b added item by item"),
        ("return [$x + $v for $x, $v in zip($a, $b)]",
         "$r = []\nfor $x, $v in zip($a, $b):\n    $r.append($x + $v)\nreturn $r",
         "return [$a[$i] + $b[$i] for $i in range(len($a))]"),
        lambda a, b: [x + y for x, y in zip(a, b, strict=True)], two_lists,
    ),
    Family(
        ("common", "in_both", "shared_items"), TWO_LISTS,
        ("a list of the items of $a that are also in $b", "the items that are in $a and in $b, in the order of $a",
         "List the items of $a that are also in $b", "List the items that are in $a and in $b, in the order of $a"),
        ("return [$x for $x in $a if $x in $b]",
         "$r = []\nfor $x in $a:\n    if $x in $b:\n        $r.append($x)\nreturn $r"),
        lambda a, b: [x for x in a if x in b], two_lists,
    ),
    Family(
        ("without", "difference", "missing_from"), TWO_LISTS,
        ("a list of the items of $a that are not in $b", "the items of $a without those in $b",
         "List the items of $a that are not in $b", "List the items of $a without those in $b"),
        ("return [$x for $x in $a if $x not in $b]",
         "$r = []\nfor $x in $a:\n    if $x not in $b:\n        $r.append($x)\nreturn $r"),
        lambda a, b: [x for x in a if x not in b], two_lists,
    ),
    Family(
        ("unique", "remove_duplicates", "distinct"), NUMBERS,
        ("the items of $a without duplicates, in order", "a list of the different items of $a in their order",
         "Remove duplicates from $a and keep the order", "the different items of $a without duplicates, in order"),
        ("$r = []\nfor $x in $a:\n    if $x not in $r:\n        $r.append($x)\nreturn $r", "return list(dict.fromkeys($a))",
         "$v = set()\n$r = []\nfor $x in $a:\n    if $x not in $v:\n        $v.add($x)\n        $r.append($x)\nreturn $r"),
        lambda values: list(dict.fromkeys(values)), repeated,
    ),
    Family(
        ("has_duplicates", "repeats", "any_twice"), NUMBERS,
        ("whether any item occurs twice in $a", "whether $a has duplicates", "Check whether $a has duplicates",
         "Check whether any item occurs twice in $a"),
        ("return len(set($a)) < len($a)",
         "$v = set()\nfor $x in $a:\n    if $x in $v:\n        return True\n    $v.add($x)\nreturn False",
         "return any($a.count($x) > 1 for $x in $a)"),
        lambda values: len(set(values)) < len(values), repeated,
    ),
    Family(
        ("count_items", "frequencies", "tally"), NUMBERS,
        ("a dictionary that says how often each item occurs in $a", "how often each item occurs in $a, as a dictionary",
         "Count how often each item occurs in $a", "a dictionary of how often each item occurs in $a"),
        ("$r = {}\nfor $x in $a:\n    $r[$x] = $r.get($x, 0) + 1\nreturn $r", "return {$x: $a.count($x) for $x in $a}",
         "$r = {}\nfor $x in $a:\n    if $x not in $r:\n        $r[$x] = 0\n    $r[$x] += 1\nreturn $r"),
        lambda values: dict(Counter(values)), repeated,
    ),
    Family(
        ("most_common", "most_frequent", "mode"), NUMBERS,
        ("the item that occurs most often in $a", "the most frequent item of $a (the first of several)",
         "Find the item that occurs most often in $a", "Find the most frequent item of $a (the first of several)"),
        ("return max($a, key=$a.count)",
         "$r = $a[0]\nfor $x in $a:\n    if $a.count($x) > $a.count($r):\n        $r = $x\nreturn $r"),
        lambda values: max(values, key=values.count), lambda rng: ([rng.randint(1, 4) for _ in range(rng.randint(1, 7))],),
    ),
    Family(
        ("group_by_length", "by_length", "group"), (("words",), ("names",), ("strings",)),
        ("a dictionary from each length to the list of words of that length in $a",
         "the words in $a grouped by their lengths", "Group the words in $a by length",
         "a dictionary of the words in $a grouped by their lengths"),
        ("$r = {}\nfor $x in $a:\n    $r.setdefault(len($x), []).append($x)\nreturn $r",
         "$r = {}\nfor $x in $a:\n    if len($x) not in $r:\n        $r[len($x)] = []\n    $r[len($x)].append($x)\nreturn $r"),
        by_length, lambda rng: (words(rng),),
    ),
    Family(
        ("lengths", "word_lengths", "length_table"), (("words",), ("names",), ("strings",)),
        ("a dictionary from each word in $a to its length", "the length of each word in $a, as a dictionary",
         "Map each word in $a to its length", "a dictionary of the length of each word in $a"),
        ("return {$x: len($x) for $x in $a}", "$r = {}\nfor $x in $a:\n    $r[$x] = len($x)\nreturn $r"),
        lambda given: {word: len(word) for word in given}, lambda rng: (words(rng),),
    ),
    Family(
        ("invert", "swap_keys", "reverse_table"), TABLE,
        ("a dictionary from the values of $a to its keys", "$a with keys and values exchanged",
         "Exchange the keys and values of the dictionary $a", "the dictionary $a with keys and values exchanged"),
        ("return {$v: $x for $x, $v in $a.items()}", "$r = {}\nfor $x, $v in $a.items():\n    $r[$v] = $x\nreturn $r",
         "$r = {}\nfor $x in $a:\n    $r[$a[$x]] = $x\nreturn $r"),
        lambda given: {value: key for key, value in given.items()}, table,
    ),
    Family(
        ("best_key", "key_of_largest", "top"), TABLE,
        ("the key with the largest value in $a", "the key of $a that has the largest value",
         "Find the key with the largest value in $a", "Find the key of $a that has the largest value"),
        ("return max($a, key=$a.get)",
         "$r = None\nfor $x in $a:\n    if $r is None or $a[$x] > $a[$r]:\n        $r = $x\nreturn $r"),
        lambda given: max(given, key=given.get), table,
    ),
    Family(
        ("keep_above", "entries_above", "filter_values"), (("table", "limit"), ("prices", "bound"), ("points", "k")),
        ("the entries of $a whose value is greater than $b", "a dictionary of the entries of $a with values above $b",
         "Keep the entries of $a whose value is greater than $b",
         "a dictionary of the entries of $a whose value is above $b"),
        ("return {$x: $v for $x, $v in $a.items() if $v > $b}",
         "$r = {}\nfor $x, $v in $a.items():\n    if $v > $b:\n        $r[$x] = $v\nreturn $r"),
        lambda given, limit: {key: value for key, value in given.items() if value > limit},
        limited_table,
    ),
    Family(
        ("merge", "add_tables", "combine"), TWO_LISTS,
        ("the dictionaries $a and $b merged, with values of equal keys added",
         "a dictionary of all keys of $a and $b with their values added", "Merge $a and $b and add values of equal keys",
         "Merge the dictionaries $a and $b, with values of equal keys added"),
        ("$r = dict($a)\nfor $x, $v in $b.items():\n    $r[$x] = $r.get($x, 0) + $v\nreturn $r",
         "return {$x: $a.get($x, 0) + $b.get($x, 0) for $x in [*$a, *$b]}"),
        added, lambda rng: tuple({k: rng.randint(1, 9) for k in rng.sample("abcdef", rng.randint(0, 4))} for _ in "ab"),
    ),
    Family(
        ("second_largest", "runner_up", "second"), NUMBERS,
        ("the second largest different number in $a, or None", "the largest number in $a below the maximum, or None",
         "Find the second largest different number in $a, or None",
         "Find the largest number in $a below the maximum, or None"),
        ("$r = sorted(set($a))\nreturn $r[-2] if len($r) > 1 else None",
         "$r = [$x for $x in $a if $x != max($a)]\nreturn max($r) if $r else None"),
        lambda values: max((x for x in values if x != max(values)), default=None), repeated,
    ),
    Family(
        ("is_sorted", "in_order", "ascending"), NUMBERS,
        ("whether $a is sorted", "whether the items of $a never get smaller", "Check whether $a is sorted",
         "Check whether the items of $a never get smaller"),
        ("return $a == sorted($a)",
         "for $i in range(1, len($a)):\n    if $a[$i] < $a[$i - 1]:\n        return False\nreturn True",
         "return all($x <= $v for $x, $v in zip($a, $a[1:]))"),
        lambda values: values == sorted(values),
        lambda rng: (sorted(numbers(rng)) if rng.random() < 0.5 else numbers(rng),),
    ),
    Family(
        ("index_of", "find", "position_of"), (("items", "target"), ("values", "wanted"), ("data", "key")),
        ("the first index of $b in $a, or -1", "the position at which $b first occurs in $a, or -1",
         "Find the first index of $b in $a, or -1", "Find the position at which $b first occurs in $a, or -1"),
        ("for $i, $x in enumerate($a):\n    if $x == $b:\n        return $i\nreturn -1",
         "return $a.index($b) if $b in $a else -1",
         "for $i in range(len($a)):\n    if $a[$i] == $b:\n        return $i\nreturn -1"),
        lambda items, target: items.index(target) if target in items else -1,
        lambda rng: ([rng.randint(0, 6) for _ in range(rng.randint(0, 6))], rng.randint(0, 6)),
    ),
    Family(
        ("chunks", "split_up", "in_pieces"), (("items", "size"), ("values", "n"), ("data", "k")),
        ("$a split into lists of $b items", "a list of pieces of $a with $b items each",
         "Split $a into lists of $b items", "a list of lists of $b items from $a"),
        ("return [$a[$i : $i + $b] for $i in range(0, len($a), $b)]",
         "$r = []\nfor $i in range(0, len($a), $b):\n    $r.append($a[$i : $i + $b])\nreturn $r",
         "$r = []\nwhile $a:\n    $r.append($a[:$b])\n    $a = $a[$b:]\nreturn $r"),
        lambda items, size: [items[start : start + size] for start in range(0, len(items), size)], with_number(1, 4),
    ),
    Family(
        ("transpose", "columns", "flip"), (("matrix",), ("rows",), ("grid",)),
        ("the columns of $a as a list of lists", "$a with rows and columns exchanged", "Exchange rows and columns of $a",
         "a list of the columns of $a"),
        ("return [list($x) for $x in zip(*$a)]",
         "$r = []\nfor $i in range(len($a[0])):\n    $r.append([$x[$i] for $x in $a])\nreturn $r"),
        lambda rows: [list(column) for column in zip(*rows, strict=True)],
        lambda rng: ((lambda n: [[rng.randint(0, 9) for _ in range(n)] for _ in range(rng.randint(1, 3))])(rng.randint(1, 3)),),
    ),
    Family(
        ("collatz", "steps_to_one", "collatz_steps"), ONE,
        ("how many steps $a takes to 1, halving even numbers and making odd ones 3n + 1",
         "the number of Collatz steps from $a to 1", "Count the Collatz steps from $a to 1",
         "how many Collatz steps $a takes to 1"),
        ("$r = 0\nwhile $a != 1:\n    if $a % 2 == 0:\n        $a //= 2\n    else:\n        $a = 3 * $a + 1\n    $r += 1\n"
         "return $r",
         "$r = 0\nwhile $a > 1:\n    $a = $a // 2 if $a % 2 == 0 else 3 * $a + 1\n    $r += 1\nreturn $r"),
        steps_to_one, natural,
    ),
    Family(
        ("digit_sum", "sum_digits", "add_digits"), ONE,
        ("the sum of all digits of $a by division", "the digit sum of $a", "Compute the digit sum of $a",
         "Compute the sum of all digits of $a by division"),
        ("$r = 0\nwhile $a > 0:\n    $r += $a % 10\n    $a //= 10\nreturn $r",
         "if $a < 10:\n    return $a\nreturn $a % 10 + $f($a // 10)", "$r = 0\nfor $x in str($a):\n    $r += int($x)\nreturn $r"),
        lambda n: sum(map(int, str(n))), lambda rng: (rng.randint(0, 9999),),
    ),
    Family(
        ("to_binary", "binary", "bits"), ONE,
        ("$a as a text of binary digits", "the binary digits of $a as a text", "Write $a as a text of binary digits",
         "Write the binary digits of $a as a text"),
        ('if $a == 0:\n    return "0"\n$r = ""\nwhile $a > 0:\n    $r = str($a % 2) + $r\n    $a //= 2\nreturn $r',
         "return bin($a)[2:]", 'if $a < 2:\n    return str($a)\nreturn $f($a // 2) + str($a % 2)'),
        lambda n: f"{n:b}", lambda rng: (rng.choice((rng.randint(0, 70), 0, 1)),),
    ),
    Family(
        ("divisors", "factors", "divisors_of"), ONE,
        ("a list of all divisors of $a", "all numbers from 1 to $a that divide $a", "List all divisors of $a",
         "List all numbers from 1 to $a that divide $a"),
        ("return [$i for $i in range(1, $a + 1) if $a % $i == 0]",
         "$r = []\nfor $i in range(1, $a + 1):\n    if $a % $i == 0:\n        $r.append($i)\nreturn $r"),
        lambda n: [d for d in range(1, n + 1) if n % d == 0], natural,
    ),
    Family(
        ("prime_factors", "factorise", "factor"), ONE,
        ("the prime factors of $a in order", "a list of primes whose product is $a", "List the prime factors of $a in order",
         "a list of the prime factors of $a in order"),
        ("$r = []\n$i = 2\nwhile $a > 1:\n    while $a % $i == 0:\n        $r.append($i)\n        $a //= $i\n    $i += 1\n"
         "return $r",
         "$r = []\n$i = 2\nwhile $a > 1:\n    if $a % $i == 0:\n        $r.append($i)\n        $a //= $i\n    else:\n"
         "        $i += 1\nreturn $r"),
        lambda n: [p for p in range(2, n + 1) if is_prime(p) for e in range(1, 7) if n % p**e == 0], natural,
    ),
    Family(
        ("hamming", "count_differences", "mismatches"), TWO_LISTS,
        ("the number of positions at which $a and $b differ", "how many positions of $a and $b differ",
         "Count the positions at which $a and $b differ", "how many positions there are at which $a and $b differ"),
        ("return sum($x != $v for $x, $v in zip($a, $b))",
         "$r = 0\nfor $x, $v in zip($a, $b):\n    if $x != $v:\n        $r += 1\nreturn $r",
         "return sum(1 for $i in range(len($a)) if $a[$i] != $b[$i])"),
        lambda a, b: sum(x != y for x, y in zip(a, b, strict=True)), two_lists,
    ),
    Family(
        ("are_anagrams", "anagrams", "same_letters"), TWO_LISTS,
        ("whether the words $a and $b are anagrams", "whether $a and $b have the same letters",
         "Check whether $a and $b are anagrams", "Check whether the words $a and $b have the same letters"),
        ("return sorted($a) == sorted($b)",
         "for $x in $a + $b:\n    if $a.count($x) != $b.count($x):\n        return False\nreturn True"),
        lambda a, b: sorted(a) == sorted(b),
        lambda rng: rng.choice((("stone", "notes"), ("area", "aera"), ("sun", "nus"), ("aab", "abb"), ("oak", "oaks"),
                                tuple(rng.sample(WORDS, 2)))),
    ),
    Family(
        ("countdown", "count_down", "down_to_one"), ONE,
        ("a list of the numbers from $a down to 1", "the numbers from $a to 1 in reverse order, as a list",
         "Count down from $a to 1 in a list", "the numbers from $a down to 1, as a list"),
        ("return list(range($a, 0, -1))", "$r = []\nwhile $a > 0:\n    $r.append($a)\n    $a -= 1\nreturn $r",
         "return [$i for $i in range($a, 0, -1)]"),
        lambda n: list(range(n, 0, -1)), small,
    ),
    Family(
        ("interleave", "alternate", "weave"), TWO_LISTS,
        ("a list that takes items from $a and $b in turn", "the items of $a and $b in turn, as a list",
         "Take items from $a and $b in turn", "a list of the items of $a and $b in turn"),
        ("$r = []\nfor $x, $v in zip($a, $b):\n    $r.append($x)\n    $r.append($v)\nreturn $r",
         "$r = []\nfor $x, $v in zip($a, $b):\n    $r += [$x, $v]\nreturn $r", "return [$v for $x in zip($a, $b) for $v in $x]"),
        lambda a, b: [item for both in zip(a, b, strict=True) for item in both], two_lists,
    ),
    Family(
        ("average", "mean", "mean_of"), NUMBERS,
        ("the average of $a, or 0 if it is empty", "the mean of the numbers in $a, or 0 if there is none",
         "Compute the average of $a, or 0 if it is empty", "Compute the mean of $a, or 0 if it is empty"),
        ("return sum($a) / len($a) if $a else 0", "if not $a:\n    return 0\nreturn sum($a) / len($a)",
         "if not $a:\n    return 0\n$r = 0\nfor $x in $a:\n    $r += $x\nreturn $r / len($a)"),
        lambda values: sum(values) / len(values) if values else 0, repeated,
    ),
)  # fmt: skip


def write_family(rng: random.Random, held_out: bool) -> Written:
    """One of the families, in a wording of one split."""
    family = rng.choice(FAMILIES)
    choices = family.documents[-1:] if held_out else family.documents[:-1]
    document, name = rng.choice(choices), rng.choice(family.names)
    arguments = rng.choice(family.arguments)
    names = dict(zip("abc", arguments, strict=False)) | {"f": name}
    for local, pool in LOCALS.items():
        names[local] = rng.choice([word for word in pool if word not in names.values()])
    sentence = Template(document).substitute(names) + "."
    sentence = sentence if document[0].isupper() else f"Return {sentence}"
    tests = calls(rng, family)
    head = f"def {name}({', '.join(arguments)}):\n" + docstring(rng, name, sentence, tests)
    tests += edges(family, tests[0][0])
    lines = Template(rng.choice(family.bodies)).substitute(names).split("\n")
    body = "".join(f"\n    {line}" for line in lines) + "\n"
    return Written(head, body, name, tests, f"family/{family.names[0]}", f"{family.names[0]}: {document}")


def calls(rng: random.Random, family: Family) -> list[tuple[tuple[Any, ...], Any]]:
    """Six calls with their results, of which not all are the same."""
    while True:
        given = [family.inputs(rng) for _ in range(6)]
        tests = [(arguments, family.reference(*arguments)) for arguments in given]
        if len({repr(expected) for _, expected in tests}) > 1:
            return tests


def edges(family: Family, given: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]]:
    """Calls with one of the arguments `given` at an edge (nothing, zero, one, the square of a prime), with results."""
    if family.names[0] in OPEN_EDGES:
        return []
    found = []
    for place, argument in enumerate(given):
        for edge in EDGES.get(type(argument), []):
            arguments = (*given[:place], edge, *given[place + 1 :])
            with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):  # not defined there
                found.append((arguments, family.reference(*arguments)))
    return found
