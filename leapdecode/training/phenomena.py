"""What makes Jacobi decoding of a trained model fast (CLLM, section 3.3 and Table 3).

Trajectories are in block form: y(0), ..., y* of n tokens each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leapdecode.training.losses import first_difference
from leapdecode.training.trajectories import Trajectory


@dataclass(frozen=True)
class Phenomena:
    """Means over blocks.

    Attributes:
        fast_forwarded: tokens that an iteration fixes, the one included that every iteration fixes.
        stationary: tokens of a block that became right while a wrong token stood before them, and
            stayed right to the end.
        iterations: of a block, to its fixed point.
        blocks: how many there were.
    """

    fast_forwarded: float
    stationary: float
    iterations: float
    blocks: int


def phenomena(trajectories: Iterable[Trajectory]) -> Phenomena:
    """The means over trajectories; empty ones, of dropped blocks, are left out."""
    found = [one for one in trajectories if one]
    tokens = sum(len(one[-1]) for one in found)
    iterations = sum(iterations_of(one) for one in found)
    blocks = max(len(found), 1)
    return Phenomena(
        tokens / max(iterations, 1),
        sum(map(stationary, found)) / blocks,
        iterations / blocks,
        len(found),
    )


def iterations_of(trajectory: Trajectory) -> int:
    """Forwards that a trajectory took: a guess that is right at once takes one to be seen so."""
    return max(len(trajectory) - 1, 1)


def stationary(trajectory: Trajectory) -> int:
    """Stationary tokens of a block. What the initial guess had right is nobody's prediction, so it
    counts from the first iteration on.
    """
    fixed, states = trajectory[-1], trajectory[1:]
    return sum(_is_stationary(place, states, fixed) for place in range(len(fixed)))


def _is_stationary(place: int, states: Sequence[Sequence[int]], fixed: Sequence[int]) -> bool:
    settled = len(states)  # the first state from which on this token is right
    while settled and states[settled - 1][place] == fixed[place]:
        settled -= 1
    return settled < len(states) and first_difference(states[settled], fixed) < place
