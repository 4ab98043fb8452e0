"""Blocks world: build towers of coloured blocks action by action (SEED, appendix D; PlanBench), with a simulator.

A thought of kind "action" is three lines: a note of the towers as they are now, a reason, the action. A prompt shows
the actions so far and the last thought's note, so each note is one small step away from a text in the prompt.
"""

import random
import re
from collections.abc import Sequence
from typing import ClassVar

from leapdecode.tasks import blocksworld_text as words
from leapdecode.tasks.base import Example, Split, Task
from leapdecode.tasks.blocksworld_world import (
    Action,
    Goal,
    State,
    apply,
    begins_as_action,
    best_action,
    best_plan,
    broken_rule,
    legal,
    parse_action,
    parse_line,
    problems,
    reached,
    run,
    shape,
    useful,
)

__all__ = ["Action", "Blocksworld", "State", "action_prompt", "apply", "legal", "parse_action", "parse_evaluation"]

LONGEST = 8  # actions of a shortest plan
LONGEST_WRITTEN = 6  # actions of a plan that is written in one completion
RESERVED_SHAPES = 4  # one problem shape in four is kept for the held-out split
DETOURS = 0.2  # share of plans so far whose last action is a random one
END = "[PLAN END]"
_EVALUATION = re.compile(r"\s*(good|bad)\b(?!\s*(?:[?/]|or\b))", re.IGNORECASE)


class Blocksworld(Task):
    """Arranging coloured blocks into towers."""

    name: ClassVar[str] = "blocksworld"
    summary: ClassVar[str] = "blocks world: the next action, a whole plan, or whether an action is a good one"
    kinds: ClassVar[tuple[str, ...]] = ("action", "plan", "value")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        state, goal = problem(rng, split, LONGEST_WRITTEN if kind == "plan" else LONGEST, kind)
        chosen = words.skeleton(rng, split)
        statement = words.statement(rng, chosen, state, goal)
        facts: dict[str, object] = {"skeleton": " / ".join(chosen.values()), "shape": shape(state, goal)}
        if kind == "plan":
            return Example(kind, plan_prompt(statement), written_plan(rng, state, goal), facts | _kept(state, goal))
        thoughts, state = history(rng, state, goal)
        facts |= _kept(state, goal)
        if kind == "action":
            action = best_action(state, goal)
            why = f"{words.wanted(goal)} {words.reason(rng, state, goal, action)}"
            thought = f"{words.note(rng, state)}\n{why}\n{action}"
            return Example(kind, action_prompt(statement, thoughts), f"\n{thought}\n", facts)
        action, verdict = judged(rng, state, goal)
        right = useful(state, action, goal)
        body = value_prompt(statement, f"{words.note(rng, state)}\n{action}")
        return Example(kind, body, f" {verdict}\n", facts | {"action": str(action), "right": right})

    def header(self, kind: str) -> str:
        """The published rules, which open the prompts of every kind."""
        return words.HEADER

    def score(self, example: Example, text: str) -> float:
        """1 for a useful legal action, a plan that reaches the goal, or the right verdict; otherwise 0."""
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


def action_prompt(statement: str, thoughts: Sequence[str] = ()) -> str:
    """The prompt for the next thought, after thoughts as models write them: note, reason, action.

    Only the last thought keeps its note, and no thought its reason: the action lines alone are the plan so far.
    """
    lines = [str(action) for action in map(parse_action, thoughts[:-1]) if action]
    lines += [without_reason(thought) for thought in thoughts[-1:]]
    so_far = "".join(f"{line}\n" for line in lines)
    return f"[STATEMENT]\n{statement}\nMy plan is as follows:\n{so_far}The current action is:"


def plan_prompt(statement: str) -> str:
    """The prompt for a whole plan."""
    return f"[STATEMENT]\n{statement}\nMy plan is as follows:"


def value_prompt(statement: str, thought: str) -> str:
    """The prompt for an evaluation of a thought's action, under the conditions that the thought notes."""
    return (
        "Please evaluate whether the given action is a good one under certain conditions.\n"
        f"[STATEMENT]\n{statement}\n[ACTION]\n{without_reason(thought)}\n[EVALUATION]\nThe evaluation is:"
    )


def without_reason(thought: str) -> str:
    """A thought's first line and its action, without what lies between them or follows."""
    lines = [line.strip() for line in thought.splitlines() if line.strip()]
    place = next((place for place, line in enumerate(lines) if parse_line(line)), None)
    kept = lines[:1] if place is None else [*lines[: min(1, place)], lines[place]]
    return "\n".join(kept)


def parse_evaluation(text: str) -> bool | None:
    """The verdict that opens a text: True for "good", False for "bad", None for anything else."""
    found = _EVALUATION.match(text)
    return None if found is None else found.group(1).lower() == "good"


def parse_plan(text: str) -> list[Action] | None:
    """The actions of a plan up to its end mark; None without the mark, or with a line that only begins as an action."""
    lines = [line.strip().lower() for line in text.splitlines()]
    if END.lower() not in lines:
        return None
    plan = []
    for line in lines[: lines.index(END.lower())]:
        action = parse_line(line)
        if action is None and begins_as_action(line):
            return None
        plan += [action] if action else []
    return plan


def problem(rng: random.Random, split: Split, longest: int, kind: str) -> tuple[State, list[tuple[str, str]]]:
    """A problem of a split: one of its shapes with random colours, towers and goals in random order."""
    count = rng.choices((3, 4, 5), (3, 6, 1) if kind == "plan" else (2, 5, 3))[0]
    while True:
        shaped, pairs = rng.choice(problems(count, longest))
        if words.stable_share(shape(shaped, pairs), RESERVED_SHAPES) == (split == "held_out"):
            break
    names = dict(zip(map(str, range(count)), rng.sample(words.COLOURS, count), strict=True))
    towers = [tuple(names[block] for block in tower) for tower in shaped.towers]
    goal = [(names[block], names[low]) for block, low in pairs]
    return State(tuple(rng.sample(towers, len(towers)))), rng.sample(goal, len(goal))


def history(rng: random.Random, state: State, goal: Goal) -> tuple[list[str], State]:
    """Thoughts so far, cut anywhere before the goal and now and then ending in a detour; and the state they lead to."""
    plan = best_plan(state, goal)
    plan = plan[: rng.randrange(len(plan))]
    if plan and rng.random() < DETOURS:
        before = run(state, plan[:-1])
        assert before is not None
        detours = [action for action in legal(before) if not reached(apply(before, action), goal)]
        plan[-1:] = [rng.choice(detours)] if detours else plan[-1:]
    thoughts = []
    for action in plan:
        thoughts.append(f"{words.note(rng, state)}\n{action}")
        state = apply(state, action)
    return thoughts, state


def written_plan(rng: random.Random, state: State, goal: Goal) -> str:
    """A whole plan as a completion: before each move of a block a line with the towers and a reason."""
    lines = []
    openings = rng.sample(words.NOTES, len(words.NOTES))
    for number, action in enumerate(best_plan(state, goal)):
        if not state.hand:
            seen = openings[number // 2 % len(openings)].format(words.towers(state))
            lines.append(f"{seen}. {words.reason(rng, state, goal, action)}")
        lines.append(action.short())
        state = apply(state, action)
    return "\n".join(["", *lines, END, ""])


def judged(rng: random.Random, state: State, goal: Goal) -> tuple[Action, str]:
    """An action to evaluate and the verdict on it: half of the actions are good, the others illegal or useless."""
    better = best_action(state, goal)
    if rng.random() < 0.5:
        good = rng.choice([action for action in legal(state) if useful(state, action, goal)])
        why = words.reason(rng, state, goal, better) if good == better else rng.choice(words.NEARER)
        return good, f"good. {why}"
    allowed = legal(state)
    useless = [action for action in allowed if not useful(state, action, goal)]
    bad = rng.choice(useless) if useless and rng.random() < 0.5 else illegal_action(rng, state)
    return bad, f"bad. {words.fault(rng, state, bad, better)}"


def illegal_action(rng: random.Random, state: State) -> Action:
    """An action that is not allowed; which restriction it breaks is drawn first, so that all are as frequent."""
    blocks = sorted(state.blocks())
    actions = [Action(verb, x, y) for verb in ("unstack", "stack") for x in blocks for y in blocks if x != y]
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
