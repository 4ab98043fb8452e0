"""Writes the blocks world down: statements by their skeletons, notes, reasons, verdicts."""

import functools
import hashlib
import random
from dataclasses import dataclass

from leapdecode_bench.tasks.base import Split
from leapdecode_bench.tasks.blocksworld.planning import ready
from leapdecode_bench.tasks.blocksworld.world import Action, Goal, State, broken_rule
from leapdecode_bench.tasks.data import load_toml
from leapdecode_bench.tasks.english import capital, listed

RESERVED_SHARE = 5  # one combination of common parts in five is kept for the held-out split
RESERVED_PARTS = 0.6  # share of held-out statements that may have patterns of their own


@dataclass(frozen=True)
class Words:
    """The tables of `words.toml`, where each of them is explained."""

    colours: list[str]
    notes: list[str]
    full_hands: list[str]
    empty_hands: list[str]
    nearer: list[str]
    useless: list[str]
    common: dict[str, list[str]]
    reserved: dict[str, list[str]]
    reasons: dict[str, list[str]]
    illegal: dict[str, list[str]]


@functools.cache
def words() -> Words:
    """The words of the task, read once."""
    return Words(**load_toml("blocksworld/words.toml"))


def stable_share(key: str, share: int) -> bool:
    """Whether a key is one of the `1 / share` that are reserved; the same in every process."""
    return hashlib.sha256(key.encode()).digest()[0] % share == 0


def skeleton(rng: random.Random, split: Split) -> dict[str, str]:
    """One pattern for each part of a statement, out of those of the split."""
    pool = words().common
    if split == "held_out" and rng.random() < RESERVED_PARTS:
        pool = {part: pool[part] + words().reserved.get(part, []) for part in pool}
    while True:
        chosen = {part: rng.choice(patterns) for part, patterns in pool.items()}
        if is_reserved(chosen) == (split == "held_out"):
            return chosen


def is_reserved(chosen: dict[str, str]) -> bool:
    """Whether a skeleton is for the held-out split: a reserved pattern, or combination."""
    if any(chosen[part] in patterns for part, patterns in words().reserved.items()):
        return True
    return stable_share("/".join(chosen[part] for part in words().common), RESERVED_SHARE)


def statement(rng: random.Random, chosen: dict[str, str], state: State, goal: Goal) -> str:
    """The initial conditions and the goal, written by a skeleton."""
    clear = {block: chosen["clear"].format(x=block) for block in state.clear()}
    lies = {
        block: chosen["on"].format(x=block, y=low) if low else chosen["table"].format(x=block)
        for tower in state.towers
        for low, block in zip((None, *tower), tower, strict=False)
    }
    if chosen["order"] == "by tower":
        towers = [
            [clear[tower[-1]]] + [lies[block] for block in reversed(tower)]
            for tower in state.towers
        ]
        facts = [fact for tower in towers for fact in tower] + [chosen["hand"]]
    else:
        table = [lies[tower[0]] for tower in state.towers]
        on = [lies[block] for tower in state.towers for block in tower[:0:-1]]
        facts = [*clear.values(), chosen["hand"], *on, *table]
        if chosen["order"] == "mixed":
            rng.shuffle(facts)
    wishes = [chosen["on"].format(x=block, y=low) for block, low in goal]
    opening = chosen["opening"].format(facts=listed(facts))
    return f"{opening} {chosen['goal'].format(facts=listed(wishes))}"


def towers(state: State) -> str:
    """The towers, each read from its top to its bottom: `green on red, blue`."""
    return ", ".join(" on ".join(reversed(tower)) for tower in state.towers)


def wanted(goal: Goal) -> str:
    """The goal in short, in its order: `Goal: red on blue, blue on green.`.

    What is then decided is near and plain.
    """
    return f"Goal: {', '.join(f'{block} on {low}' for block, low in goal)}."


def note(rng: random.Random, state: State) -> str:
    """One line that says all about a state."""
    hand = rng.choice(words().full_hands if state.hand else words().empty_hands)
    return f"{rng.choice(words().notes).format(towers(state))}; {hand.format(x=state.hand)}."


def reason_of(state: State, goal: Goal, action: Action) -> tuple[str, str, str | None]:
    """Why a useful action helps: the kind of reason, and the two blocks it is about."""
    block, target = action.block, dict(goal).get(action.block)
    if action.verb == "stack":
        return "stack", block, action.other
    if action.verb == "put down":
        return ("wait", block, target) if target else ("aside", block, None)
    if ready(state, goal, block):
        return "build", block, target
    needed = {name for pair in goal if state.below(pair[0]) != pair[1] for name in pair}
    under = next(tower for tower in state.towers if tower[-1] == block)[-2::-1]
    return "dig", block, next((low for low in under if low in needed), action.other)


def reason(rng: random.Random, state: State, goal: Goal, action: Action) -> str:
    """A sentence that says why a useful action helps."""
    kind, x, y = reason_of(state, goal, action)
    return capital(rng.choice(words().reasons[kind]).format(x=x, y=y))


def fault(rng: random.Random, state: State, action: Action, better: Action) -> str:
    """A sentence on a bad action: the restriction it breaks, or what to do instead of it."""
    rule = broken_rule(state, action)
    if rule is None:
        return rng.choice(words().useless).format(better.short())
    kind, x, y = rule
    return capital(rng.choice(words().illegal[kind]).format(x=x, y=y))
