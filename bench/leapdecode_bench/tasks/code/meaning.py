"""What the parts of the grammar mean, by their keys: whence the expected results come."""

import math
from collections.abc import Callable, Iterable
from typing import Any

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
