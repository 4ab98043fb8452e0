"""Row costs that a test states: no machine decides then how many guesses are evaluated."""

import math

from leapdecode.engine.shared import Shared
from leapdecode.model import cost, load
from leapdecode.model.cost import CostCurve, RowCost
from leapdecode.model.row_times import KNOTS, RowTimes

LEARNED = Shared.times_of  # which tests do without, see `free_rows`
# what `conftest.py` changes for all tests, as users have it
INSTALLED = {
    "leapdecode.model.load.AUTO_COST": load.AUTO_COST,
    "leapdecode.model.cost.SECONDS": cost.SECONDS,
}


def stated_times(points):
    """Times that no forward changes, by {rows: milliseconds}, with straight lines in between."""
    curve = CostCurve([RowCost(64, rows, ms, ms, ms) for rows, ms in points.items()])
    return RowTimes(tuple(curve(rows, 64) / curve(1, 64) for rows in KNOTS), curve(1, 64), math.inf)


def state_row_costs(llm, target, draft=None):
    """Let an `LLM` go by these times, of its draft too; what it has learnt before is forgotten."""
    llm.shared.planners.clear()
    for runner, points in ((llm.runner, target), (llm.draft_runner, draft)):
        if points is not None:
            llm.shared.times[id(runner)] = stated_times(points)


def free_rows(shared, runner):
    """The times of a runner where a test states none: further rows take none, and a draft little.

    In place of `Shared.times_of`.
    """
    if id(runner) not in shared.times:
        milliseconds = 1e-3 if runner is shared.draft_runner else 1.0
        shared.times[id(runner)] = stated_times({1: milliseconds, 128: milliseconds})
    return shared.times[id(runner)]
