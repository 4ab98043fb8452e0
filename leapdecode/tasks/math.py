"""Generated word problems with a rationale that ends "So the answer is N."

Training and evaluation use different *skeletons* (sentence patterns with their own arithmetic), not only
different numbers, so a held-out problem is new in wording and in structure.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

NAMES = [
    "Ann",
    "Ben",
    "Carla",
    "Dan",
    "Ella",
    "Finn",
    "Grace",
    "Hugo",
    "Iris",
    "Jack",
    "Kate",
    "Liam",
    "Mia",
    "Noah",
    "Olga",
    "Paul",
    "Rosa",
    "Sam",
    "Tina",
    "Will",
]
THINGS = [
    "apples",
    "books",
    "cards",
    "coins",
    "cookies",
    "eggs",
    "flowers",
    "marbles",
    "oranges",
    "pencils",
    "pens",
    "shells",
    "stamps",
    "stickers",
    "toys",
]
PLACES = ["the library", "a farm", "the school", "a bakery", "the market", "a museum", "the station", "a factory"]
BOXES = ["bags", "baskets", "boxes", "crates", "jars", "packs", "shelves", "trays"]


@dataclass(frozen=True)
class Problem:
    """A word problem: the question, its rationale (one sentence a step) and the exact answer."""

    question: str
    rationale: str
    answer: int

    @property
    def prompt(self) -> str:
        return f"Question: {self.question}\nAnswer:"

    @property
    def completion(self) -> str:
        return f" {self.rationale} So the answer is {self.answer}.\n"


Skeleton = Callable[[random.Random], Problem]
TRAIN: list[Skeleton] = []
HELD_OUT: list[Skeleton] = []


def skeleton(split: list[Skeleton]) -> Callable[[Skeleton], Skeleton]:
    """Register a problem generator in one of the two splits."""

    def register(make: Skeleton) -> Skeleton:
        split.append(make)
        return make

    return register


def problems(split: list[Skeleton], count: int, seed: int = 0) -> list[Problem]:
    """`count` problems drawn from the skeletons of `split`; the same for the same seed."""
    rng = random.Random(f"math/{seed}")
    return [rng.choice(split)(rng) for _ in range(count)]


def two_names(rng: random.Random) -> tuple[str, str]:
    first, second = rng.sample(NAMES, 2)
    return first, second


@skeleton(TRAIN)
def gain_then_lose(rng: random.Random) -> Problem:
    (a, b), x = two_names(rng), rng.choice(THINGS)
    n, m = rng.randint(5, 60), rng.randint(3, 40)
    k = rng.randint(2, n + m - 1)
    return Problem(
        f"{a} has {n} {x}. {b} gives {a} {m} more {x}. Then {a} loses {k} {x}. How many {x} does {a} have now?",
        f"{a} starts with {n} {x}. After {b} gives {m} more, {a} has {n} + {m} = {n + m} {x}. "
        f"After losing {k}, {a} has {n + m} - {k} = {n + m - k} {x}.",
        n + m - k,
    )


@skeleton(TRAIN)
def containers(rng: random.Random) -> Problem:
    a, x, box = rng.choice(NAMES), rng.choice(THINGS), rng.choice(BOXES)
    n, m, k = rng.randint(2, 12), rng.randint(3, 12), rng.randint(1, 20)
    return Problem(
        f"{a} fills {n} {box} with {m} {x} each. {a} also has {k} loose {x}. How many {x} does {a} have in total?",
        f"The {box} hold {n} * {m} = {n * m} {x}. With the {k} loose {x}, {a} has {n * m} + {k} = {n * m + k} {x}.",
        n * m + k,
    )


@skeleton(TRAIN)
def shopping(rng: random.Random) -> Problem:
    a, (x, y) = rng.choice(NAMES), rng.sample(THINGS, 2)
    n, p, m, q = rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 9)
    return Problem(
        f"{a} buys {n} {x} for {p} dollars each and {m} {y} for {q} dollars each. How many dollars does {a} spend?",
        f"The {x} cost {n} * {p} = {n * p} dollars. The {y} cost {m} * {q} = {m * q} dollars. "
        f"In total {a} spends {n * p} + {m * q} = {n * p + m * q} dollars.",
        n * p + m * q,
    )


@skeleton(TRAIN)
def share_equally(rng: random.Random) -> Problem:
    (a, b), x = two_names(rng), rng.choice(THINGS)
    k, each, eaten = rng.randint(2, 9), rng.randint(3, 12), rng.randint(1, 2)
    return Problem(
        f"{a} has {k * each} {x} and shares them equally among {k} friends. {b} is one of the friends and gives away "
        f"{eaten} of the {x}. How many {x} does {b} keep?",
        f"Each friend gets {k * each} / {k} = {each} {x}. {b} gives away {eaten}, so {b} keeps "
        f"{each} - {eaten} = {each - eaten} {x}.",
        each - eaten,
    )


@skeleton(TRAIN)
def times_as_many(rng: random.Random) -> Problem:
    (a, b), x = two_names(rng), rng.choice(THINGS)
    n, k = rng.randint(3, 20), rng.randint(2, 5)
    return Problem(
        f"{a} has {n} {x}. {b} has {k} times as many {x} as {a}. How many {x} do they have together?",
        f"{b} has {k} * {n} = {k * n} {x}. Together they have {n} + {k * n} = {n + k * n} {x}.",
        n + k * n,
    )


@skeleton(TRAIN)
def weekly_work(rng: random.Random) -> Problem:
    a, place = rng.choice(NAMES), rng.choice(PLACES)
    hours, pay, days, cost = rng.randint(2, 8), rng.randint(5, 12), rng.randint(2, 6), rng.randint(2, 9)
    daily = hours * pay
    return Problem(
        f"{a} works {hours} hours a day at {place} and earns {pay} dollars an hour. {a} works {days} days and then pays "
        f"{cost} dollars for the bus. How many dollars are left?",
        f"In a day {a} earns {hours} * {pay} = {daily} dollars. In {days} days {a} earns {daily} * {days} = "
        f"{daily * days} dollars. After the bus {daily * days} - {cost} = {daily * days - cost} dollars are left.",
        daily * days - cost,
    )


@skeleton(TRAIN)
def read_pages(rng: random.Random) -> Problem:
    a = rng.choice(NAMES)
    per, days, left = rng.randint(5, 20), rng.randint(2, 9), rng.randint(5, 60)
    return Problem(
        f"A book has {per * days + left} pages. {a} reads {per} pages a day for {days} days. How many pages are left to read?",
        f"In {days} days {a} reads {per} * {days} = {per * days} pages. "
        f"There are {per * days + left} - {per * days} = {left} pages left.",
        left,
    )


@skeleton(TRAIN)
def age(rng: random.Random) -> Problem:
    a, b = two_names(rng)
    n, more, years = rng.randint(4, 30), rng.randint(2, 20), rng.randint(2, 15)
    return Problem(
        f"{a} is {n} years old. {b} is {more} years older than {a}. How old will {b} be in {years} years?",
        f"{b} is {n} + {more} = {n + more} years old now. In {years} years {b} will be "
        f"{n + more} + {years} = {n + more + years} years old.",
        n + more + years,
    )


@skeleton(TRAIN)
def visitors(rng: random.Random) -> Problem:
    place = rng.choice(PLACES)
    n, more, less = rng.randint(10, 80), rng.randint(2, 30), rng.randint(2, 9)
    second = n + more
    return Problem(
        f"On Monday {n} people visit {place}. On Tuesday {more} more people come than on Monday. On Wednesday {less} fewer "
        f"people come than on Tuesday. How many people come in the three days?",
        f"On Tuesday {n} + {more} = {second} people come. On Wednesday {second} - {less} = {second - less} people come. "
        f"In the three days {n} + {second} + {second - less} = {n + second + second - less} people come.",
        n + second + second - less,
    )


@skeleton(TRAIN)
def change_back(rng: random.Random) -> Problem:
    a, x = rng.choice(NAMES), rng.choice(THINGS)
    n, p = rng.randint(2, 8), rng.randint(2, 9)
    paid = (n * p // 10 + 1) * 10
    return Problem(
        f"{a} buys {n} {x} that cost {p} dollars each and pays with {paid} dollars. How much change does {a} get?",
        f"The {x} cost {n} * {p} = {n * p} dollars. The change is {paid} - {n * p} = {paid - n * p} dollars.",
        paid - n * p,
    )


@skeleton(TRAIN)
def half_sold(rng: random.Random) -> Problem:
    a, x, place = rng.choice(NAMES), rng.choice(THINGS), rng.choice(PLACES)
    half, more = rng.randint(5, 40), rng.randint(2, 20)
    return Problem(
        f"{a} brings {2 * half} {x} to {place} and sells half of them. Then {a} makes {more} more. How many {x} does {a} have?",
        f"{a} sells {2 * half} / 2 = {half} {x}, so {half} are left. Then {a} has {half} + {more} = {half + more} {x}.",
        half + more,
    )


@skeleton(TRAIN)
def rows_of_seats(rng: random.Random) -> Problem:
    place = rng.choice(PLACES)
    n, m = rng.randint(3, 12), rng.randint(4, 12)
    taken = rng.randint(2, n * m - 2)
    return Problem(
        f"There are {n} rows of {m} seats in {place}. {taken} seats are taken. How many seats are free?",
        f"There are {n} * {m} = {n * m} seats. {n * m} - {taken} = {n * m - taken} seats are free.",
        n * m - taken,
    )


@skeleton(TRAIN)
def save_up(rng: random.Random) -> Problem:
    a = rng.choice(NAMES)
    week, weeks, have = rng.randint(3, 12), rng.randint(2, 9), rng.randint(5, 30)
    price = have + week * weeks
    return Problem(
        f"{a} wants a bike that costs {price} dollars and already has {have} dollars. {a} saves {week} dollars a week. "
        f"How many weeks does it take?",
        f"{a} still needs {price} - {have} = {week * weeks} dollars. It takes {week * weeks} / {week} = {weeks} weeks.",
        weeks,
    )


@skeleton(TRAIN)
def two_shelves(rng: random.Random) -> Problem:
    x, box = rng.choice(THINGS), rng.choice(BOXES)
    n, m, k = rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 9)
    return Problem(
        f"A shop has {n} large {box} with {m * 2} {x} each and {k} small {box} with {m} {x} each. How many {x} are there?",
        f"The large {box} hold {n} * {m * 2} = {n * m * 2} {x}. The small {box} hold {k} * {m} = {k * m} {x}. "
        f"There are {n * m * 2} + {k * m} = {n * m * 2 + k * m} {x}.",
        n * m * 2 + k * m,
    )


@skeleton(HELD_OUT)
def lose_then_double(rng: random.Random) -> Problem:
    (a, b), x = two_names(rng), rng.choice(THINGS)
    n = rng.randint(10, 40)
    k = rng.randint(2, n - 2)
    return Problem(
        f"{a} has {n} {x} and gives {k} of them to {b}. Then {a} finds as many {x} as are left. How many {x} does {a} have now?",
        f"After giving {k} to {b}, {a} has {n} - {k} = {n - k} {x}. Then {a} has {n - k} * 2 = {(n - k) * 2} {x}.",
        (n - k) * 2,
    )


@skeleton(HELD_OUT)
def pack_and_sell(rng: random.Random) -> Problem:
    a, x, box = rng.choice(NAMES), rng.choice(THINGS), rng.choice(BOXES)
    n, m, p = rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 9)
    return Problem(
        f"{a} packs {n * m} {x} into {box} of {m} {x} each and sells each of the {box} for {p} dollars. "
        f"How many dollars does {a} earn?",
        f"{a} packs {n * m} / {m} = {n} {box}. {a} earns {n} * {p} = {n * p} dollars.",
        n * p,
    )


@skeleton(HELD_OUT)
def trip(rng: random.Random) -> Problem:
    a = rng.choice(NAMES)
    first, second, cost = rng.randint(5, 40), rng.randint(5, 40), rng.randint(2, 5)
    total = first + second
    return Problem(
        f"{a} drives {first} miles in the morning and {second} miles in the afternoon. Each mile costs {cost} dollars. "
        f"How many dollars does the trip cost?",
        f"In total {a} drives {first} + {second} = {total} miles. The trip costs {total} * {cost} = {total * cost} dollars.",
        total * cost,
    )


@skeleton(HELD_OUT)
def compare_two(rng: random.Random) -> Problem:
    (a, b), x, box = two_names(rng), rng.choice(THINGS), rng.choice(BOXES)
    n, m, k = rng.randint(3, 9), rng.randint(3, 9), rng.randint(2, 8)
    return Problem(
        f"{a} has {n} {box} with {m} {x} each. {b} has {k} fewer {x} than {a}. How many {x} does {b} have?",
        f"{a} has {n} * {m} = {n * m} {x}. {b} has {n * m} - {k} = {n * m - k} {x}.",
        n * m - k,
    )
