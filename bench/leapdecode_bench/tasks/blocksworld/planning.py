"""A shortest plan that a reader can follow: build the goal first, else clear the way."""

from leapdecode_bench.tasks.blocksworld.search import useful
from leapdecode_bench.tasks.blocksworld.world import Action, Goal, State, apply, legal, reached


def unsettled(state: State, goal: Goal) -> set[str]:
    """The blocks that every plan has to move.

    They, or a block under them, are not where the goal wants them.
    """
    low_of, top_of = dict(goal), {low: block for block, low in goal}
    blocks = {state.hand} if state.hand else set()
    for tower in state.towers:
        for height, block in enumerate(tower):
            low = tower[height - 1] if height else None
            wrong = block in low_of and low_of[block] != low
            if wrong or low in blocks or (low in top_of and top_of[low] != block):
                blocks.add(block)
    return blocks


def ready(state: State, goal: Goal, block: str) -> str | None:
    """The block that `block` can be stacked on for good as soon as it is in the hand."""
    low = dict(goal).get(block)
    return low if low in state.clear() and low not in unsettled(state, goal) else None


def best_action(state: State, goal: Goal) -> Action:
    """A useful action: first one that builds the goal.

    Else one that clears the way for the goal's earliest wish.
    """
    order = {block: place for place, pair in enumerate(goal) for block in reversed(pair)}

    def rank(action: Action) -> tuple[bool, bool, int]:
        target = ready(state, goal, action.block)
        builds = target is not None and (action.verb != "stack" or action.other == target)
        near = [order[b] for t in state.towers if action.block in t for b in t[:-1] if b in order]
        return (
            not (builds and action.verb != "put down"),
            action.verb == "stack",
            min(near, default=len(goal)),
        )

    return min((action for action in legal(state) if useful(state, action, goal)), key=rank)


def best_plan(state: State, goal: Goal) -> list[Action]:
    """A shortest plan."""
    plan = []
    while not reached(state, goal):
        plan.append(best_action(state, goal))
        state = apply(state, plan[-1])
    return plan
