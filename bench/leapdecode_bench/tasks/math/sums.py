"""The numbers of word problems: how events draw them, and how a right sum is spoiled."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from leapdecode_bench.tasks.math.events import Event

LARGEST, LARGEST_PRICE = 120, 150  # a small model can learn the sums below these
OTHER_OPERATION = {"+": "-", "-": "+", "*": "+", "/": "*"}


@dataclass(frozen=True)
class Sum:
    """`left op right = result`; the result need not be right."""

    left: int
    op: str
    right: int
    result: int

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right} = {self.result}"


class Unfit(Exception):
    """These numbers do not fit the event: too large, not divisible."""


Drawn = tuple[dict[str, int], list[Sum]]


def add(left: int, op: str, right: int) -> Sum:
    """The right sum of two numbers; raises `Unfit` where the result is no whole number."""
    if op == "/" and (right == 0 or left % right):
        raise Unfit
    result = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": left // right if right else 0,
    }[op]
    return Sum(left, op, right, result)


def _one(n: int, op: str, k: int) -> Drawn:
    return {"k": k}, [add(n, op, k)]


def _two(n: int, op: str, k: int, m: int) -> Drawn:
    """`k` lots of `m`, then added to or taken from the running number."""
    lots = add(k, "*", m)
    return {"k": k, "m": m, "g": lots.result}, [lots, add(n, op, lots.result)]


def _both(n: int, op: str, k: int) -> Drawn:
    """Someone else's number, then the sum of both."""
    other = add(n, op, k)
    return {"k": k, "g": other.result}, [other, add(n, "+", other.result)]


def _pair(k: int, op: str, m: int) -> Drawn:
    return {"k": k, "m": m}, [add(k, op, m)]


def _other(m: int, op: str, k: int) -> Drawn:
    """Someone has `m`, the other one `k` more, fewer or times as many."""
    return {"m": m, "k": k}, [add(m, op, k)]


def _price_lose(n: int, k: int, m: int) -> Drawn:
    earned = add(n, "*", k)
    return {"k": k, "m": m, "g": earned.result}, [earned, add(earned.result, "-", m)]


def _goal(n: int, missing: int) -> Drawn:
    return {"k": n + missing}, [add(n + missing, "-", n)]


def _goal_divide(n: int, m: int, times: int) -> Drawn:
    goal = n + m * times
    return {"k": goal, "m": m, "g": m * times}, [add(goal, "-", n), add(m * times, "/", m)]


# How each kind of event draws its numbers, given the running number; at the start of a story that
# is a random one.
SUMS: dict[str, Callable[[random.Random, int], Drawn]] = {
    "own": lambda rng, n: ({}, []),
    "now": lambda rng, n: ({}, []),
    "product": lambda rng, n: _pair(rng.randint(2, 9), "*", rng.randint(2, 9)),
    "sum": lambda rng, n: _pair(rng.randint(3, 40), "+", rng.randint(3, 30)),
    "times_other": lambda rng, n: _other(rng.randint(3, 30), "*", rng.choice((2, 2, 3, 4))),
    "more_other": lambda rng, n: _other(rng.randint(4, 50), "+", rng.randint(2, 20)),
    "fewer_other": lambda rng, n: _other(rng.randint(8, 60), "-", rng.randint(2, 20)),
    "gain": lambda rng, n: _one(n, "+", rng.randint(2, 30)),
    "lose": lambda rng, n: _one(n, "-", rng.randint(2, 30)),
    "times": lambda rng, n: _one(n, "*", rng.choice((2, 2, 3))),
    "half": lambda rng, n: _one(n, "/", 2),
    "divide": lambda rng, n: _one(n, "/", rng.randint(2, 9)),
    "price": lambda rng, n: _one(n, "*", rng.randint(2, 9)),
    "price_lose": lambda rng, n: _price_lose(n, rng.randint(2, 9), rng.randint(2, 30)),
    "gain_product": lambda rng, n: _two(n, "+", rng.randint(2, 9), rng.randint(2, 9)),
    "lose_product": lambda rng, n: _two(n, "-", rng.randint(2, 6), rng.randint(2, 9)),
    "goal": lambda rng, n: _goal(n, rng.randint(2, 40)),
    "goal_divide": lambda rng, n: _goal_divide(n, rng.randint(2, 9), rng.randint(2, 9)),
    "gain_sum": lambda rng, n: _both(n, "+", rng.randint(2, 20)),
    "lose_sum": lambda rng, n: _both(n, "-", rng.randint(2, 20)),
    "times_sum": lambda rng, n: _both(n, "*", rng.choice((2, 2, 3))),
}


def draw(rng: random.Random, event: Event, n: int) -> Drawn:
    """Numbers for one event that keep every sum small; raises `Unfit` where there are none."""
    for _ in range(12):
        try:
            numbers, sums = SUMS[event.sums](rng, n)
        except Unfit:
            continue
        limit = LARGEST_PRICE if event.sums.startswith("price") else LARGEST
        if all(each.result >= 2 and max(each.left, each.result) <= limit for each in sums):
            return numbers, sums
    raise Unfit


def spoil(rng: random.Random, right: Sum) -> tuple[str, Sum]:
    """What is made wrong (a result, a number, the operation), and the sum that comes of it."""
    while True:
        mistake = rng.choice(("result", "result", "number", "operation"))
        off = rng.choice((-10, -2, -1, 1, 2, 10))
        try:
            if mistake == "result":
                wrong = Sum(right.left, right.op, right.right, right.result + off)
            elif mistake == "number":
                wrong = add(right.left, right.op, right.right + off)
            else:
                wrong = add(right.left, OTHER_OPERATION[right.op], right.right)
        except Unfit:
            continue
        if wrong.result > 0 and wrong.right > 1 and wrong.result != right.result:
            return mistake, wrong
