"""The world of blocks: states, legal actions, shortest distances to a goal, and a plan that a reader can follow."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations

Goal = Sequence[tuple[str, str]]  # (block, the block it must lie on)
Key = tuple[tuple[tuple[int, ...], ...], int]  # sorted towers of numbered blocks, the block in the hand or EMPTY
EMPTY = -1


@dataclass(frozen=True)
class State:
    """Towers of blocks, each from bottom to top, and the block in the hand. The order of the towers means nothing."""

    towers: tuple[tuple[str, ...], ...]
    hand: str | None = None

    def clear(self) -> list[str]:
        """The blocks with nothing on them, tower by tower."""
        return [tower[-1] for tower in self.towers]

    def below(self, block: str) -> str | None:
        """What a block lies on; None for the table, the hand, or a block that is not there."""
        for tower in self.towers:
            if block in tower[1:]:
                return tower[tower.index(block) - 1]
        return None

    def blocks(self) -> list[str]:
        """Every block, the one in the hand last."""
        return [block for tower in self.towers for block in tower] + ([self.hand] if self.hand else [])


@dataclass(frozen=True)
class Action:
    """One of the four actions; `other` is the block that `block` is unstacked from or stacked on."""

    verb: str
    block: str
    other: str | None = None

    def __str__(self) -> str:
        join = {"unstack": "from on top of", "stack": "on top of"}.get(self.verb)
        return f"{self.verb} the {self.block} block" + (f" {join} the {self.other} block" if join else "")

    def short(self) -> str:
        """The same action in few words: `unstack red from blue`."""
        join = {"unstack": "from", "stack": "on"}.get(self.verb)
        return f"{self.verb} {self.block}" + (f" {join} {self.other}" if join else "")


_BLOCK = r"(?:the )?([a-z]+)(?: block)?"
_FORMS = {
    "pick up": re.compile(rf"pick up {_BLOCK}\.?"),
    "put down": re.compile(rf"put down {_BLOCK}\.?"),
    "unstack": re.compile(rf"unstack {_BLOCK} from (?:on top of )?{_BLOCK}\.?"),
    "stack": re.compile(rf"stack {_BLOCK} on (?:top of )?{_BLOCK}\.?"),
}


_OPENING = re.compile(rf"(?:{'|'.join(_FORMS)})\b")
_MARKS = re.compile(r"^\s*(?:[-*\u2022]|[0-9]{1,3}[.)])?\s*(?:(?:now|then)\s+)?(?:i\s+)?")


def parse_line(line: str) -> Action | None:
    """The action that a whole line states, in its long or short form; None for anything else."""
    for verb, form in _FORMS.items():
        if found := form.fullmatch(_plain(line)):
            return Action(verb, *found.groups())
    return None


def begins_as_action(line: str) -> bool:
    """Whether a line opens with the words of an action."""
    return _OPENING.match(_plain(line)) is not None


def _plain(line: str) -> str:
    """A line in lower case without list marks, an opening "I", and spaces that nobody needs."""
    return " ".join(_MARKS.sub("", line.lower()).split())


def parse_action(text: str) -> Action | None:
    """The action of the first line that is one; lines of thought before it and any text after it do not count.

    None if there is none, or if a line before it only begins as an action.
    """
    return next((parse_line(line) for line in text.splitlines() if begins_as_action(line)), None)


def broken_rule(state: State, action: Action) -> tuple[str, str | None, str | None] | None:
    """Why an action is not allowed: the rule's name and the two blocks it is about; None for a legal action."""
    block, other = action.block, action.other
    if action.verb in ("put down", "stack"):
        if state.hand != block:
            return "not held", block, state.hand
        return ("not clear", other, above(state, other)) if other and other not in state.clear() else None
    if state.hand:
        return "hand full", state.hand, block
    if state.below(block) != other or block not in state.blocks():
        return ("not there", block, other) if other else ("not on table", block, state.below(block))
    return None if block in state.clear() else ("not clear", block, above(state, block))


def above(state: State, block: str) -> str | None:
    """The block that lies directly on a block."""
    return next((top for tower in state.towers for low, top in pairwise(tower) if low == block), None)


def apply(state: State, action: Action) -> State:
    """The state after a legal action; ValueError for another. Untouched towers keep their order, a new one is last."""
    if rule := broken_rule(state, action):
        raise ValueError(f"cannot {action}: {rule[0]}")
    if action.verb in ("pick up", "unstack"):
        cut = (tower[:-1] if tower[-1] == action.block else tower for tower in state.towers)
        return State(tuple(tower for tower in cut if tower), action.block)
    if action.verb == "put down":
        return State((*state.towers, (action.block,)))
    return State(tuple((*t, action.block) if t[-1] == action.other else t for t in state.towers))


def legal(state: State) -> list[Action]:
    """Every action that a state allows."""
    if state.hand:
        return [Action("put down", state.hand)] + [Action("stack", state.hand, top) for top in state.clear()]
    return [Action("unstack", t[-1], t[-2]) if len(t) > 1 else Action("pick up", t[-1]) for t in state.towers]


def reached(state: State, goal: Goal) -> bool:
    """Whether every block of the goal lies where it must."""
    return all(state.below(block) == low for block, low in goal)


def run(state: State, actions: Sequence[Action]) -> State | None:
    """The state after a plan; None if one of its actions is not allowed."""
    for action in actions:
        if broken_rule(state, action):
            return None
        state = apply(state, action)
    return state


def goal_towers(blocks: Sequence[str], goal: Goal) -> list[tuple[str, ...]]:
    """The blocks as the goal piles them, longest pile first; a block that it does not name is a pile of its own."""
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
    """Blocks numbered pile by pile from the bottom, so that goals that differ in names alone become one."""
    return {block: number for number, block in enumerate(block for pile in piles for block in pile)}


def distance(state: State, goal: Goal) -> int:
    """The number of actions of a shortest plan."""
    piles = goal_towers(state.blocks(), goal)
    return distances(tuple(map(len, piles)))[numbered(state, numbering(piles))]


def useful(state: State, action: Action, goal: Goal) -> bool:
    """Whether an action is legal and brings the goal nearer."""
    return not broken_rule(state, action) and distance(apply(state, action), goal) < distance(state, goal)


@lru_cache(maxsize=64)
def distances(sizes: tuple[int, ...]) -> dict[Key, int]:
    """The distance of every state to the goal whose piles have these sizes, by breadth-first search from that goal."""
    pairs, start = [], 0
    for size in sizes:
        pairs += [(block, block + 1) for block in range(start, start + size - 1)]
        start += size
    graph = neighbours(start)
    found = {key: 0 for key in graph if set(pairs) <= {p for tower in key[0] for p in pairwise(tower)}}
    queue = deque(found)
    while queue:
        here = queue.popleft()
        for key in graph[here]:  # every action can be undone, so a way from the goal is a way to it
            if key not in found:
                found[key] = found[here] + 1
                queue.append(key)
    return found


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
    """A problem without its names: the same text for two problems that differ only in their colours."""
    piles = goal_towers(state.blocks(), goal)
    forms = [
        numbered(state, numbering(order)) for order in permutations(piles) if [*map(len, order)] == [*map(len, piles)]
    ]
    return f"{min(forms)} to {[*map(len, piles)]}"


@lru_cache(maxsize=8)
def problems(count: int, longest: int) -> tuple[tuple[State, tuple[tuple[str, str], ...]], ...]:
    """One problem of each shape that `count` blocks (named "0", "1", ...) and 2 to `longest` actions can have."""
    found: dict[str, tuple[State, tuple[tuple[str, str], ...]]] = {}
    for sizes in partitions(count, count):
        goal, start = [], 0
        for size in sizes:
            goal += [(str(block + 1), str(block)) for block in range(start, start + size - 1)]
            start += size
        for (towers, hand), steps in distances(sizes).items():
            if hand == EMPTY and 2 <= steps <= longest:
                state = State(tuple(tuple(map(str, tower)) for tower in towers))
                found.setdefault(shape(state, goal), (state, tuple(goal)))
    return tuple(found[key] for key in sorted(found))


def partitions(total: int, largest: int) -> list[tuple[int, ...]]:
    """The ways to write `total` as a sum of falling sizes."""
    if not total:
        return [()]
    return [(n, *rest) for n in range(min(total, largest), 0, -1) for rest in partitions(total - n, n)]


def unsettled(state: State, goal: Goal) -> set[str]:
    """The blocks that every plan has to move: they, or a block under them, are not where the goal wants them."""
    low_of, top_of = dict(goal), {low: block for block, low in goal}
    found = {state.hand} if state.hand else set()
    for tower in state.towers:
        for place, block in enumerate(tower):
            low = tower[place - 1] if place else None
            wrong = block in low_of and low_of[block] != low
            if wrong or low in found or (low in top_of and top_of[low] != block):
                found.add(block)
    return found


def ready(state: State, goal: Goal, block: str) -> str | None:
    """The block that `block` can be stacked on for good as soon as it is in the hand."""
    low = dict(goal).get(block)
    return low if low in state.clear() and low not in unsettled(state, goal) else None


def best_action(state: State, goal: Goal) -> Action:
    """A useful action: first one that builds the goal, then one that clears the way for the goal's earliest wish."""
    order = {block: place for place, pair in enumerate(goal) for block in reversed(pair)}

    def rank(action: Action) -> tuple[bool, bool, int]:
        target = ready(state, goal, action.block)
        builds = target is not None and (action.verb != "stack" or action.other == target)
        near = [order[b] for t in state.towers if action.block in t for b in t[:-1] if b in order]
        return not (builds and action.verb != "put down"), action.verb == "stack", min(near, default=len(goal))

    return min((action for action in legal(state) if useful(state, action, goal)), key=rank)


def best_plan(state: State, goal: Goal) -> list[Action]:
    """A shortest plan."""
    plan = []
    while not reached(state, goal):
        plan.append(best_action(state, goal))
        state = apply(state, plan[-1])
    return plan
