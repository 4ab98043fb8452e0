"""Whether further rows pay at a price of time, in tokens or in draft forwards saved."""

from collections.abc import Callable

from leapdecode.methods.common_rows import StepCost

STEPS = (1, 2, 4, 8, 16)  # further rows that are looked at: a flat stretch may hide what follows
SAVED = 0.5  # draft forwards that a row of one saves where the walk reaches its node
Pays = Callable[[float, int], bool]  # (chance of a further row, rows so far)


def pays_at(price: float, cost: StepCost, context: int) -> Pays:
    """(chance, rows) -> whether some number of further rows, none of them likelier, gains more than
    `price` times the time that it adds.
    """

    def pays(chance: float, rows: int) -> bool:
        now = cost(max(rows, 1), context)
        return any(more * chance > price * (cost(rows + more, context) - now) for more in STEPS)

    return pays
