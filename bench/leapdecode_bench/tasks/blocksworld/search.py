"""Shortest distances to a goal, and the problems there are.

Every problem is solved backwards from its goal by breadth-first search, over blocks that are
numbered so that problems which differ in their colours alone are one.
"""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, permutations

from leapdecode_bench.tasks.blocksworld.world import Action, Goal, State, apply, broken_rule, legal

Key = tuple[
    tuple[tuple[int, ...], ...], int
]  # sorted towers of numbers, the one in the hand or EMPTY
EMPTY = -1


def goal_towers(blocks: Sequence[str], goal: Goal) -> list[tuple[str, ...]]:
    """The blocks as the goal piles them, longest pile first.

    A block that it does not name is a pile of its own.
    """
    on = {low: block for block, low in goal}
    moved = {block for block, _ in goal}
    piles = []
    for block in blocks:
        if block not in moved:
            pile = [block]
            while pile[-1] in on:
                pile.append(on[pile[-1]])
            piles.append(tuple(pile))
    return sorted(piles, key=len, reverse=True)


def numbered(state: State, names: dict[str, int]) -> Key:
    """A state's key under a numbering of its blocks."""
    towers = sorted(tuple(names[block] for block in tower) for tower in state.towers)
    return tuple(towers), names[state.hand] if state.hand else EMPTY


def numbering(piles: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """Blocks numbered pile by pile from the bottom, so that names do not matter."""
    return {block: number for number, block in enumerate(block for pile in piles for block in pile)}


def distance(state: State, goal: Goal) -> int:
    """The number of actions of a shortest plan."""
    piles = goal_towers(state.blocks(), goal)
    return distances(tuple(map(len, piles)))[numbered(state, numbering(piles))]


def useful(state: State, action: Action, goal: Goal) -> bool:
    """Whether an action is legal and brings the goal nearer."""
    return not broken_rule(state, action) and distance(apply(state, action), goal) < distance(
        state, goal
    )


@lru_cache(maxsize=64)
def distances(sizes: tuple[int, ...]) -> dict[Key, int]:
    """The distance of every state to the goal whose piles have these sizes.

    By breadth-first search from that goal.
    """
    pairs, start = [], 0
    for size in sizes:
        pairs += [(block, block + 1) for block in range(start, start + size - 1)]
        start += size
    graph = neighbours(start)
    steps_to = {
        key: 0 for key in graph if set(pairs) <= {p for tower in key[0] for p in pairwise(tower)}
    }
    queue = deque(steps_to)
    while queue:
        here = queue.popleft()
        for key in graph[here]:  # every action can be undone, so a way from the goal is a way to it
            if key not in steps_to:
                steps_to[key] = steps_to[here] + 1
                queue.append(key)
    return steps_to


@lru_cache(maxsize=8)
def neighbours(count: int) -> dict[Key, list[Key]]:
    """The graph of all states of `count` numbered blocks."""
    names = {str(number): number for number in range(count)}
    first = State(tuple((name,) for name in names))
    graph: dict[Key, list[Key]] = {}
    waiting = [first]
    while waiting:
        state = waiting.pop()
        key = numbered(state, names)
        if key not in graph:
            following = [apply(state, action) for action in legal(state)]
            graph[key] = [numbered(after, names) for after in following]
            waiting += following
    return graph


def shape(state: State, goal: Goal) -> str:
    """A problem without its names: the same text where only the colours differ."""
    piles = goal_towers(state.blocks(), goal)
    forms = [
        numbered(state, numbering(order))
        for order in permutations(piles)
        if [*map(len, order)] == [*map(len, piles)]
    ]
    return f"{min(forms)} to {[*map(len, piles)]}"


@lru_cache(maxsize=8)
def problems(count: int, longest: int) -> tuple[tuple[State, tuple[tuple[str, str], ...]], ...]:
    """One problem of each shape that `count` blocks (named "0", "1", ...) and 2 to `longest`
    actions can have.
    """
    by_shape: dict[str, tuple[State, tuple[tuple[str, str], ...]]] = {}
    for sizes in partitions(count, count):
        goal, start = [], 0
        for size in sizes:
            goal += [(str(block + 1), str(block)) for block in range(start, start + size - 1)]
            start += size
        for (towers, hand), steps in distances(sizes).items():
            if hand == EMPTY and 2 <= steps <= longest:
                state = State(tuple(tuple(map(str, tower)) for tower in towers))
                by_shape.setdefault(shape(state, goal), (state, tuple(goal)))
    return tuple(by_shape[key] for key in sorted(by_shape))


def partitions(total: int, largest: int) -> list[tuple[int, ...]]:
    """The ways to write `total` as a sum of falling sizes."""
    if not total:
        return [()]
    return [
        (n, *rest) for n in range(min(total, largest), 0, -1) for rest in partitions(total - n, n)
    ]
