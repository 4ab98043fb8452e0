"""The words of the blocks world: the published prompt, the patterns of a statement, notes on a state, reasons."""

import hashlib
import random
from collections.abc import Sequence
from typing import Literal

from leapdecode.tasks.blocksworld_world import Action, Goal, State, broken_rule, ready

Split = Literal["train", "held_out"]

COLOURS = ("red", "blue", "green", "yellow", "orange", "white", "black", "pink")

# The prompt of SEED, appendix D (Wang et al., 2024), which follows PlanBench (Valmeekam et al., 2023).
HEADER = """I am playing with a set of blocks where I need to arrange the blocks into stacks. \
Here are the actions I can do:

Pick up a block
Unstack a block from on top of another block
Put down a block
Stack a block on top of another block

I have the following restrictions on my actions:
I can only pick up or unstack one block at a time.
I can only pick up or unstack a block if my hand is empty.
I can only pick up a block if the block is on the table and the block is clear. \
A block is clear if the block has no other blocks on top of it and if the block is not picked up.
I can only unstack a block from on top of another block if the block I am unstacking was \
really on top of the other block.
I can only unstack a block from on top of another block if the block I am unstacking is clear.
Once I pick up or unstack a block, I am holding the block.
I can only put down a block that I am holding.
I can only stack a block on top of another block if I am holding the block being stacked.
I can only stack a block on top of another block if the block onto which I am stacking the block \
is clear.
Once I put down or stack a block, my hand becomes empty.

"""

# Every part of a statement has patterns for both splits, and patterns that only held-out statements use; those are
# made of the same words. A statement is one choice of each part: its skeleton.
Parts = dict[str, tuple[str, ...]]
COMMON: Parts = {
    "opening": (
        "As initial conditions I have that, {facts}.",
        "At the start {facts}.",
        "I begin like this: {facts}.",
        "Here is what I see: {facts}.",
        "Right now {facts}.",
        "My blocks are set like this: {facts}.",
    ),
    "goal": (
        "My goal is to have that {facts}.",
        "I want that {facts}.",
        "In the end I want that {facts}.",
        "The goal is that {facts}.",
        "Please help me so that {facts}.",
    ),
    "on": (
        "the {x} block is on top of the {y} block",
        "the {x} block is on the {y} block",
        "the {y} block is under the {x} block",
        "the {x} block sits on the {y} block",
        "the {y} block has the {x} block on it",
        "on top of the {y} block there is the {x} block",
    ),
    "table": (
        "the {x} block is on the table",
        "the {x} block sits on the table",
        "on the table there is the {x} block",
        "the table holds the {x} block",
    ),
    "clear": ("the {x} block is clear", "nothing is on the {x} block", "clear is the {x} block"),
    "hand": ("the hand is empty", "my hand is empty", "I hold nothing"),
    "order": ("by kind", "by tower", "mixed"),
}
RESERVED: Parts = {
    "opening": ("At the start I have that {facts}.", "Right now I see that {facts}.", "Here I begin: {facts}."),
    "goal": ("In the end my goal is to have that {facts}.", "I want to have that {facts}."),
    "on": (
        "the {x} block sits on top of the {y} block",
        "on the {y} block there is the {x} block",
        "the {y} block has the {x} block on top of it",
    ),
    "table": ("on the table is the {x} block", "on the table sits the {x} block"),
    "clear": ("on the {x} block there is nothing", "nothing sits on the {x} block"),
    "hand": ("the hand holds nothing", "there is nothing in my hand"),
}
RESERVED_SHARE = 5  # one combination of common parts in five is kept for the held-out split

NOTES = ("Now I have {}", "The towers are {}", "I see {}", "At this point there are {}", "So far I have {}")
FULL_HANDS = ("I hold {x}", "{x} is in my hand", "the hand holds {x}")
EMPTY_HANDS = ("I hold nothing", "my hand is empty", "the hand is empty", "nothing is held")
REASONS = {
    "stack": (
        "{x} belongs on {y}, which is clear.",
        "The goal wants {x} on {y}.",
        "It is time for {x} to go on {y}.",
        "{y} is ready for {x}.",
    ),
    "build": (
        "{x} can go to its place on {y}.",
        "{x} has a place on {y} now.",
        "The goal wants {x} on {y}, and both are free.",
        "{y} is ready, so {x} comes next.",
    ),
    "wait": ("{y} is not ready for {x}.", "{x} must wait for {y}.", "{x} cannot stay on {y} yet."),
    "aside": ("{x} has to go aside.", "{x} can rest on the table.", "The goal does not say where {x} goes."),
    "dig": (
        "{y} must be free, so {x} has to leave it.",
        "{x} is above {y}, which the goal needs.",
        "The goal needs {y}, but {x} is over it.",
        "To reach {y} I have to move {x}.",
    ),
}
ILLEGAL = {
    "not held": ("I do not hold {x}.", "{x} is not in my hand.", "The hand does not hold {x}."),
    "hand full": ("The hand is not empty, it holds {x}.", "I already hold {x}.", "My hand is full with {x}."),
    "not clear": ("{x} is not clear, since {y} is on it.", "{y} is on top of {x}.", "{x} is under {y}."),
    "not there": ("{x} is not on {y}.", "{y} does not have {x} on it.", "{x} sits somewhere else than on {y}."),
    "not on table": ("{x} is not on the table but on {y}.", "{x} sits on {y}.", "{x} is on top of {y}."),
}
NEARER = ("It brings the goal nearer.", "This is a useful step.", "It is one way to come closer.")
USELESS = ("It is allowed, but it is better to {}.", "I can do it, but first I should {}.", "A shorter way is to {}.")


def stable_share(key: str, share: int) -> bool:
    """Whether a key is one of the `1 / share` that are reserved; the same in every process."""
    return hashlib.sha256(key.encode()).digest()[0] % share == 0


def skeleton(rng: random.Random, split: Split) -> dict[str, str]:
    """One pattern for each part of a statement, out of those of the split."""
    with_reserved = split == "held_out" and rng.random() < 0.6
    while True:
        pool = {part: COMMON[part] + RESERVED.get(part, ()) if with_reserved else COMMON[part] for part in COMMON}
        chosen = {part: rng.choice(patterns) for part, patterns in pool.items()}
        if is_reserved(chosen) == (split == "held_out"):
            return chosen


def is_reserved(chosen: dict[str, str]) -> bool:
    """Whether a skeleton belongs to the held-out split: a reserved pattern, or a reserved combination."""
    return any(chosen[part] in patterns for part, patterns in RESERVED.items()) or stable_share(
        "/".join(chosen[part] for part in COMMON), RESERVED_SHARE
    )


def statement(rng: random.Random, chosen: dict[str, str], state: State, goal: Goal) -> str:
    """The initial conditions and the goal, written by a skeleton."""
    clear = {block: chosen["clear"].format(x=block) for block in state.clear()}
    lies = {
        block: chosen["on"].format(x=block, y=low) if low else chosen["table"].format(x=block)
        for tower in state.towers
        for low, block in zip((None, *tower), tower, strict=False)
    }
    if chosen["order"] == "by tower":
        towers = [[clear[tower[-1]]] + [lies[block] for block in reversed(tower)] for tower in state.towers]
        facts = [fact for tower in towers for fact in tower] + [chosen["hand"]]
    else:
        table = [lies[tower[0]] for tower in state.towers]
        on = [lies[block] for tower in state.towers for block in tower[:0:-1]]
        facts = [*clear.values(), chosen["hand"], *on, *table]
        if chosen["order"] == "mixed":
            rng.shuffle(facts)
    wishes = [chosen["on"].format(x=block, y=low) for block, low in goal]
    return f"{chosen['opening'].format(facts=listed(facts))} {chosen['goal'].format(facts=listed(wishes))}"


def listed(parts: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def towers(state: State) -> str:
    """The towers, each read from its top to its bottom: `green on red, blue`."""
    return ", ".join(" on ".join(reversed(tower)) for tower in state.towers)


def wanted(goal: Goal) -> str:
    """The goal in short, in its order: `Goal: red on blue, blue on green.`; what is then decided is near and plain."""
    return f"Goal: {', '.join(f'{block} on {low}' for block, low in goal)}."


def note(rng: random.Random, state: State) -> str:
    """One line that says all about a state."""
    hand = rng.choice(FULL_HANDS).format(x=state.hand) if state.hand else rng.choice(EMPTY_HANDS)
    return f"{rng.choice(NOTES).format(towers(state))}; {hand}."


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
    return capital(rng.choice(REASONS[kind]).format(x=x, y=y))


def fault(rng: random.Random, state: State, action: Action, better: Action) -> str:
    """A sentence that says what is wrong with an action: the restriction it breaks, or what to do instead of it."""
    rule = broken_rule(state, action)
    if rule is None:
        return rng.choice(USELESS).format(better.short())
    kind, x, y = rule
    return capital(rng.choice(ILLEGAL[kind]).format(x=x, y=y))


def capital(sentence: str) -> str:
    """The sentence with a capital letter at its start."""
    return sentence[:1].upper() + sentence[1:]
