"""Whether further rows pay: whether they gain more than their time would bring elsewhere.

The gain is in tokens, or in draft forwards saved; `price` is the gain that a unit of time brings
elsewhere. `context` is the number of cached tokens.
"""

from collections.abc import Callable

from leapdecode.methods.common_rows import StepCost

MOST = 128  # rows of a tree at most
STEPS = (1, 2, 4, 8, 16)  # further rows that are tried: four may pay where one does not
SAVED = 0.5  # draft forwards that a draft's row saves later if the walk reaches its node
Pays = Callable[[float, int], bool]  # (chance of a further row, rows so far)


def pays_at(price: float, cost: StepCost, context: int) -> Pays:
    """(chance, rows) -> whether some number of further rows, none of them likelier, gains more than
    `price` times the time that it adds.
    """

    def pays(chance: float, rows: int) -> bool:
        now = cost(max(rows, 1), context)
        return any(more * chance > price * (cost(rows + more, context) - now) for more in STEPS)

    return pays


def best_count(
    chances: list[float], always: int, price: float, cost: StepCost, context: int
) -> int:
    """How many nodes of `chances`, likeliest first, gain most beyond `price` times the time of
    their rows behind `always` others.
    """
    expected = 0.0
    best = -price * cost(always, context)
    count = 0
    for more, chance in enumerate(chances, start=1):
        expected += chance
        gain = expected - price * cost(always + more, context)
        if gain > best:
            best, count = gain, more
    return count


def rows_within(room: float, cost: StepCost, context: int, limit: int | None) -> int:
    """The most rows, at least one and at most `limit`, that take no longer than `room`."""
    rows = 1
    while rows != limit and rows < MOST and cost(rows + 1, context) <= room:
        rows += 1
    return rows
