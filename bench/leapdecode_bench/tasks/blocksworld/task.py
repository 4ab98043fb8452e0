"""Blocks world: build towers of coloured blocks action by action, with a simulator.

A thought of kind "action" is three lines: a note of the towers as they are now, a reason, the
action. A prompt shows the actions so far and the last thought's note, so each note is one small
step away from a text in the prompt.
"""

import random
from itertools import permutations
from typing import Any, ClassVar

from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.blocksworld import wording
from leapdecode_bench.tasks.blocksworld.planning import best_action, best_plan
from leapdecode_bench.tasks.blocksworld.prompts import (
    action_prompt,
    header,
    plan_prompt,
    value_prompt,
)
from leapdecode_bench.tasks.blocksworld.reading import (
    END,
    parse_action,
    parse_evaluation,
    parse_plan,
)
from leapdecode_bench.tasks.blocksworld.search import problems, shape, useful
from leapdecode_bench.tasks.blocksworld.wording import words
from leapdecode_bench.tasks.blocksworld.world import (
    Action,
    Goal,
    State,
    apply,
    broken_rule,
    legal,
    reached,
    run,
)

LONGEST = 8  # actions of a shortest plan
LONGEST_WRITTEN = 6  # actions of a plan that is written in one completion
RESERVED_SHAPES = 4  # one problem shape in four is kept for the held-out split
DETOURS = 0.2  # share of plans so far whose last action is a random one


class Blocksworld(Task):
    """Arranging coloured blocks into towers."""

    name: ClassVar[str] = "blocksworld"
    summary: ClassVar[str] = (
        "blocks world: the next action, a whole plan, or whether an action is a good one"
    )
    kinds: ClassVar[tuple[str, ...]] = ("action", "plan", "value")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A problem: a plan, the next action or a verdict. `facts` has what `score` must know."""
        longest = LONGEST_WRITTEN if kind == "plan" else LONGEST
        state, goal = problem(rng, split, longest, kind)
        chosen = wording.skeleton(rng, split)
        statement = wording.statement(rng, chosen, state, goal)
        facts: dict[str, Any] = {"skeleton": " / ".join(chosen.values())}
        facts["shape"] = shape(state, goal)
        if kind == "plan":
            completion = written_plan(rng, state, goal)
            return Example(kind, plan_prompt(statement), completion, facts | _kept(state, goal))
        thoughts, state = history(rng, state, goal)
        facts |= _kept(state, goal)
        if kind == "action":
            body = action_prompt(statement, thoughts)
            return Example(kind, body, f"\n{next_thought(rng, state, goal)}\n", facts)
        action, verdict = judged(rng, state, goal)
        facts |= {"action": str(action), "right": useful(state, action, goal)}
        body = value_prompt(statement, f"{wording.note(rng, state)}\n{action}")
        return Example(kind, body, f" {verdict}\n", facts)

    def header(self, kind: str) -> str:
        """The published rules, which open the prompts of every kind."""
        return header()

    def score(self, example: Example, text: str) -> float:
        """1 for a useful legal action, a plan that reaches the goal, or the right verdict.

        Otherwise 0.
        """
        if example.kind == "value":
            return float(parse_evaluation(text) is example.facts["right"])
        state = State(tuple(map(tuple, example.facts["towers"])), example.facts["hand"])
        goal = [(block, low) for block, low in example.facts["goal"]]
        if example.kind == "plan":
            plan = parse_plan(text)
            after = None if plan is None else run(state, plan)
            return float(after is not None and reached(after, goal))
        action = parse_action(text)
        return float(action is not None and useful(state, action, goal))


def problem(
    rng: random.Random, split: Split, longest: int, kind: str
) -> tuple[State, list[tuple[str, str]]]:
    """A problem of a split: one of its shapes.

    Its colours are random, and the order of its towers and of its goals.
    """
    count = rng.choices((3, 4, 5), (3, 6, 1) if kind == "plan" else (2, 5, 3))[0]
    while True:
        shaped, pairs = rng.choice(problems(count, longest))
        if wording.stable_share(shape(shaped, pairs), RESERVED_SHAPES) == (split == "held_out"):
            break
    colours = rng.sample(words().colours, count)
    names = {str(number): colour for number, colour in enumerate(colours)}
    towers = [tuple(names[block] for block in tower) for tower in shaped.towers]
    goal = [(names[block], names[low]) for block, low in pairs]
    return State(tuple(rng.sample(towers, len(towers)))), rng.sample(goal, len(goal))


def good_and_bad(count: int) -> list[Example]:
    """The first `count` training evaluations, a good action and a bad one in turn."""
    drawn = Blocksworld().examples("train", 8 * count, "value")
    good = [example for example in drawn if example.facts["right"]]
    bad = [example for example in drawn if not example.facts["right"]]
    return [example for pair in zip(good, bad, strict=False) for example in pair][:count]


def history(rng: random.Random, state: State, goal: Goal) -> tuple[list[str], State]:
    """Thoughts so far, and the state they lead to.

    They are cut anywhere before the goal and now and then end in a detour.
    """
    plan = best_plan(state, goal)
    plan = plan[: rng.randrange(len(plan))]
    if plan and rng.random() < DETOURS:
        before = run(state, plan[:-1])
        assert before is not None
        detours = [action for action in legal(before) if not reached(apply(before, action), goal)]
        plan[-1:] = [rng.choice(detours)] if detours else plan[-1:]
    thoughts = []
    for action in plan:
        thoughts.append(f"{wording.note(rng, state)}\n{action}")
        state = apply(state, action)
    return thoughts, state


def next_thought(rng: random.Random, state: State, goal: Goal) -> str:
    """A note of the towers, why the best action helps, and that action."""
    action = best_action(state, goal)
    why = f"{wording.wanted(goal)} {wording.reason(rng, state, goal, action)}"
    return f"{wording.note(rng, state)}\n{why}\n{action}"


def written_plan(rng: random.Random, state: State, goal: Goal) -> str:
    """A whole plan as a completion.

    Before each move of a block stands a line with the towers and a reason.
    """
    lines = []
    openings = rng.sample(words().notes, len(words().notes))
    for number, action in enumerate(best_plan(state, goal)):
        if not state.hand:
            seen = openings[number // 2 % len(openings)].format(wording.towers(state))
            lines.append(f"{seen}. {wording.reason(rng, state, goal, action)}")
        lines.append(action.short())
        state = apply(state, action)
    return "\n".join(["", *lines, END, ""])


def judged(rng: random.Random, state: State, goal: Goal) -> tuple[Action, str]:
    """An action to evaluate and the verdict on it.

    Half of the actions are good, the others illegal or useless.
    """
    better = best_action(state, goal)
    if rng.random() < 0.5:
        good = rng.choice([action for action in legal(state) if useful(state, action, goal)])
        if good == better:
            return good, f"good. {wording.reason(rng, state, goal, better)}"
        return good, f"good. {rng.choice(words().nearer)}"
    allowed = legal(state)
    useless = [action for action in allowed if not useful(state, action, goal)]
    bad = rng.choice(useless) if useless and rng.random() < 0.5 else illegal_action(rng, state)
    return bad, f"bad. {wording.fault(rng, state, bad, better)}"


def illegal_action(rng: random.Random, state: State) -> Action:
    """An action that is not allowed.

    Which restriction it breaks is drawn first, so that all are as frequent.
    """
    blocks = sorted(state.blocks())
    pairs = list(permutations(blocks, 2))
    actions = [Action(verb, x, y) for verb in ("unstack", "stack") for x, y in pairs]
    actions += [Action(verb, x) for verb in ("pick up", "put down") for x in blocks]
    faults: dict[str, list[Action]] = {}
    for action in actions:
        if rule := broken_rule(state, action):
            faults.setdefault(rule[0], []).append(action)
    return rng.choice(faults[rng.choice(list(faults))])


def _kept(state: State, goal: Goal) -> dict[str, object]:
    """What the scorer must know, in plain lists."""
    return {
        "towers": [list(tower) for tower in state.towers],
        "hand": state.hand,
        "goal": [list(pair) for pair in goal],
    }
