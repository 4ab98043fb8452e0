"""What a forward of any number of rows costs, from the row counts that were measured."""

import bisect
from collections.abc import Callable

from leapdecode.model.cost import RowCost

ROUNDED = 32  # tokens


class CostCurve:
    """Milliseconds of a step by rows and cached tokens: straight lines between what was measured.

    It goes by the fastest forwards, which a busy machine disturbs least, and never falls with more
    rows.

    Args:
        costs: the measured points.
        padded: to how many rows per sequence a forward of so many is padded.
    """

    def __init__(
        self, costs: list[RowCost], padded: Callable[[int], int] = lambda rows: rows
    ) -> None:
        self.padded = padded
        self.contexts = sorted({cost.context for cost in costs})
        self.lines = [
            self._line([cost for cost in costs if cost.context == context])
            for context in self.contexts
        ]
        self.known: dict[tuple[int, int], float] = {}

    @staticmethod
    def _line(costs: list[RowCost]) -> list[tuple[int, float]]:
        ordered = sorted(costs, key=lambda cost: cost.rows)
        return [
            (c.rows, min(other.fastest for other in ordered[place:]))
            for place, c in enumerate(ordered)
        ]

    def __call__(self, rows: int, context: int) -> float:
        """Beyond the measured rows the last line goes on; beyond the measured contexts the nearest
        one counts.

        `context` is rounded down to a multiple of `ROUNDED`: a budget asks for dozens of row counts
        in every step.
        """
        key = rows, context // ROUNDED
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._between(self.padded(rows), key[1] * ROUNDED)
        return found

    def _between(self, rows: int, context: int) -> float:
        place = bisect.bisect_left(self.contexts, context)
        if place in (0, len(self.contexts)):
            return self._at(min(place, len(self.contexts) - 1), rows)
        low, high = self.contexts[place - 1], self.contexts[place]
        share = (context - low) / (high - low)
        return (1 - share) * self._at(place - 1, rows) + share * self._at(place, rows)

    def _at(self, line: int, rows: int) -> float:
        points = self.lines[line]
        if len(points) < 2:
            return points[0][1]
        end = min(max(bisect.bisect_left(points, (rows, 0.0)), 1), len(points) - 1)
        (x0, y0), (x1, y1) = points[end - 1], points[end]
        return y0 + (y1 - y0) * (rows - x0) / (x1 - x0)
