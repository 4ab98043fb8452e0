"""The world of blocks: states, actions, and what the rules allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Goal = Sequence[tuple[str, str]]  # (block, the block it must lie on)


@dataclass(frozen=True)
class State:
    """Towers of blocks, each from bottom to top, and the block in the hand.

    The order of the towers means nothing.
    """

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
        return [block for tower in self.towers for block in tower] + (
            [self.hand] if self.hand else []
        )


@dataclass(frozen=True)
class Action:
    """One of the four actions; `other` is what `block` is unstacked from or stacked on."""

    verb: str
    block: str
    other: str | None = None

    def __str__(self) -> str:
        join = {"unstack": "from on top of", "stack": "on top of"}.get(self.verb)
        return f"{self.verb} the {self.block} block" + (
            f" {join} the {self.other} block" if join else ""
        )

    def short(self) -> str:
        """The same action in few words: `unstack red from blue`."""
        join = {"unstack": "from", "stack": "on"}.get(self.verb)
        return f"{self.verb} {self.block}" + (f" {join} {self.other}" if join else "")


def broken_rule(state: State, action: Action) -> tuple[str, str | None, str | None] | None:
    """Why an action is not allowed: the rule's name and the two blocks it is about.

    None for a legal action.
    """
    block, other = action.block, action.other
    if action.verb in ("put down", "stack"):
        if state.hand != block:
            return "not held", block, state.hand
        return (
            ("not clear", other, above(state, other))
            if other and other not in state.clear()
            else None
        )
    if state.hand:
        return "hand full", state.hand, block
    if state.below(block) != other or block not in state.blocks():
        return ("not there", block, other) if other else ("not on table", block, state.below(block))
    return None if block in state.clear() else ("not clear", block, above(state, block))


def above(state: State, block: str) -> str | None:
    """The block that lies directly on a block."""
    return next(
        (top for tower in state.towers for low, top in pairwise(tower) if low == block), None
    )


def apply(state: State, action: Action) -> State:
    """The state after a legal action; ValueError for another.

    Untouched towers keep their order, a new one is last.
    """
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
        return [Action("put down", state.hand)] + [
            Action("stack", state.hand, top) for top in state.clear()
        ]
    return [
        Action("unstack", t[-1], t[-2]) if len(t) > 1 else Action("pick up", t[-1])
        for t in state.towers
    ]


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
