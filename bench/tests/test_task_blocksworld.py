"""Blocks world: the simulator is exact, the splits differ in structure and wording, and only right
answers score.
"""

import random
import re
from collections import deque

import pytest

from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.blocksworld import (
    LONGEST_WRITTEN,
    Blocksworld,
    action_prompt,
    parse_evaluation,
    parse_plan,
    value_prompt,
)
from leapdecode_bench.tasks.blocksworld.planning import best_action, best_plan, ready
from leapdecode_bench.tasks.blocksworld.reading import begins_as_action, parse_action
from leapdecode_bench.tasks.blocksworld.search import (
    distance,
    neighbours,
    numbered,
    problems,
    useful,
)
from leapdecode_bench.tasks.blocksworld.wording import reason_of, words
from leapdecode_bench.tasks.blocksworld.world import (
    Action,
    State,
    apply,
    broken_rule,
    legal,
    reached,
    run,
)

COLOURS, REASONS, RESERVED = words().colours, words().reasons, words().reserved
TASK = Blocksworld()
KINDS = [(kind, split) for kind in TASK.kinds for split in ("train", "held_out")]
STATE = State((("blue", "red"), ("green",)))
GOAL = [("green", "red")]


def plain_distance(state, goal):
    """Breadth-first search with the simulator alone, without renaming or tables."""
    names = {block: number for number, block in enumerate(sorted(state.blocks()))}
    queue, seen = deque([(state, 0)]), {numbered(state, names)}
    while queue:
        here, steps = queue.popleft()
        if reached(here, goal):
            return steps
        for after in (apply(here, action) for action in legal(here)):
            if numbered(after, names) not in seen:
                seen.add(numbered(after, names))
                queue.append((after, steps + 1))
    raise AssertionError("every goal can be reached")


@pytest.mark.parametrize(("count", "states"), [(1, 2), (2, 5), (3, 22), (4, 125), (5, 866)])
def test_the_simulator_reaches_every_state(count, states):
    # arrangements of n blocks, plus n times those of the others (one is held)
    assert len(neighbours(count)) == states


@pytest.mark.parametrize("seed", range(30))
def test_distances_agree_with_a_plain_search(seed):
    rng = random.Random(seed)
    state, goal = rng.choice(problems(rng.choice((3, 4)), 8))
    for _ in range(4):
        assert distance(state, goal) == plain_distance(state, goal)
        state = apply(state, rng.choice(legal(state)))


@pytest.mark.parametrize("count", [3, 4])
def test_the_planner_is_optimal_and_can_say_why(count):
    for state, goal in problems(count, 8):
        plan = best_plan(state, goal)
        assert len(plan) == distance(state, goal)
        for action in plan:
            assert useful(state, action, goal)
            kind, _, y = reason_of(state, goal, action)
            assert kind in REASONS
            assert "{y}" not in REASONS[kind][0] or y
            assert (action.verb == "stack") == (
                state.hand is not None and ready(state, goal, state.hand) is not None
            )
            state = apply(state, action)
        assert reached(state, goal)


@pytest.mark.parametrize(
    ("hand", "action", "rule"),
    [
        (None, "pick up the green block", None),
        (None, "unstack the red block from on top of the blue block", None),
        (None, "pick up the red block", "not on table"),
        (None, "pick up the blue block", "not clear"),
        (None, "pick up the pink block", "not on table"),
        (None, "unstack the blue block from on top of the red block", "not there"),
        (None, "unstack the green block from on top of the red block", "not there"),
        (None, "put down the green block", "not held"),
        (None, "stack the green block on top of the red block", "not held"),
        ("pink", "put down the pink block", None),
        ("pink", "stack the pink block on top of the green block", None),
        ("pink", "stack the pink block on top of the blue block", "not clear"),
        ("pink", "stack the pink block on top of the pink block", "not clear"),
        ("pink", "stack the pink block on top of the white block", "not clear"),
        ("pink", "stack the green block on top of the red block", "not held"),
        ("pink", "pick up the green block", "hand full"),
        ("pink", "unstack the red block from on top of the blue block", "hand full"),
    ],
)
def test_the_restrictions(hand, action, rule):
    state, parsed = State(STATE.towers, hand), parse_action(action)
    assert parsed is not None
    broken = broken_rule(state, parsed)
    assert (broken and broken[0]) == rule
    assert (parsed in legal(state)) == (rule is None)
    if rule:
        with pytest.raises(ValueError, match=rule):
            apply(state, parsed)
        assert run(state, [parsed]) is None


def test_actions_change_the_state():
    state = apply(STATE, Action("unstack", "red", "blue"))
    assert state == State((("blue",), ("green",)), "red")
    assert apply(state, Action("put down", "red")) == State((("blue",), ("green",), ("red",)))
    assert apply(state, Action("stack", "red", "green")) == State((("blue",), ("green", "red")))
    assert apply(STATE, Action("pick up", "green")) == State((("blue", "red"),), "green")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("\npick up the red block\n", "pick up the red block"),
        (
            "Now I have red; nothing is held.\nRed first.\npick up red\n[STATEMENT]\npick up blue",
            "pick up the red block",
        ),
        (" Put down the red block.", "put down the red block"),
        ("unstack red from blue", "unstack the red block from on top of the blue block"),
        ("stack the red block on the blue block", "stack the red block on top of the blue block"),
        ("pick up the red block and then the blue one", None),
        ("pick up the red block now\npick up the red block", None),
        ("I should pick up the red block", None),
        ("stack the red block", None),
        ("unstack the red block on top of the blue block", None),
        ("stack the red block from the blue block", None),
        ("", None),
    ],
)
def test_reading_an_action(text, action):
    assert (parse_action(text) and str(parse_action(text))) == action


@pytest.mark.parametrize(("kind", "split"), KINDS)
def test_references_are_right_short_and_reproducible(kind, split):
    examples = TASK.examples(split, 150, kind)
    assert examples == Blocksworld().examples(split, 150, kind)
    assert len({example.body for example in examples}) == 150
    for example in examples:
        assert TASK.score(example, example.completion) == 1
        assert (
            TASK.score(
                example,
                example.completion + "\n" + example.body + " bad.\nput down the red block\n",
            )
            == 1
        )
        assert example.body == example.body.rstrip()
        assert example.completion.endswith("\n")
        assert len((example.body + example.completion).split()) < 260


def masked(example: Example) -> str:
    """The statement with its colours numbered in order of appearance."""
    statement = example.body.split("[STATEMENT]\n")[1].split("\n")[0]
    seen = {
        name: str(number)
        for number, name in enumerate(dict.fromkeys(re.findall("|".join(COLOURS), statement)))
    }
    return re.sub("|".join(COLOURS), lambda found: seen[found[0]], statement)


def test_the_splits_share_no_skeleton_and_no_shape():
    train, held = (
        [example for kind in TASK.kinds for example in TASK.examples(split, 300, kind)]
        for split in ("train", "held_out")
    )
    for fact in ("skeleton", "shape"):
        assert not {e.facts[fact] for e in train} & {e.facts[fact] for e in held}
        assert len({e.facts[fact] for e in held}) > 30
    assert not {masked(e) for e in train} & {masked(e) for e in held}
    new = [pattern for patterns in RESERVED.values() for pattern in patterns]
    assert not any(pattern in e.facts["skeleton"].split(" / ") for e in train for pattern in new)
    assert all(any(pattern in e.facts["skeleton"].split(" / ") for e in held) for pattern in new)


def test_held_out_statements_use_known_words():
    known = {
        word
        for e in TASK.examples("train", 400)
        for word in re.findall(r"\w+", e.body + e.completion)
    }
    held = {
        word
        for e in TASK.examples("held_out", 400)
        for word in re.findall(r"\w+", e.body + e.completion)
    }
    assert held <= known


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_of_all_actions_only_the_useful_ones_score(split):
    for example in TASK.examples(split, 60):
        state = State(tuple(map(tuple, example.facts["towers"])), example.facts["hand"])
        goal = [tuple(pair) for pair in example.facts["goal"]]
        here = plain_distance(state, goal) if len(state.blocks()) < 5 else distance(state, goal)
        scores = {action: TASK.score(example, f"\n{action}\n") for action in legal(state)}
        assert scores == {a: float(distance(apply(state, a), goal) < here) for a in scores}
        assert 1.0 in scores.values()
        assert TASK.score(example, f"\n{best_action(state, goal).short()} now\n") == 0
        for colour in COLOURS:
            if colour not in state.blocks():
                assert TASK.score(example, f"\npick up the {colour} block\n") == 0


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_damaged_plans_do_not_score(split):
    for example in TASK.examples(split, 60, "plan"):
        lines = example.completion.split("\n")
        plan = parse_plan(example.completion)
        assert plan is not None
        assert 2 <= len(plan) <= LONGEST_WRITTEN
        actions = [place for place, line in enumerate(lines) if parse_action(line)]
        for place in actions:
            assert TASK.score(example, "\n".join(lines[:place] + lines[place + 1 :])) == 0
            assert (
                TASK.score(
                    example,
                    "\n".join([*lines[:place], lines[place] + " or so", *lines[place + 1 :]]),
                )
                == 0
            )
        assert TASK.score(example, example.completion.replace("[PLAN END]", "")) == 0
        assert (
            TASK.score(example, example.completion.replace(lines[actions[-1]], "[PLAN END]")) == 0
        )
        assert TASK.score(example, "\n[PLAN END]" + example.completion) == 0


def test_values_are_balanced_and_only_the_opening_word_counts():
    examples = TASK.examples("train", 300, "value")
    assert 0.4 < sum(example.facts["right"] for example in examples) / 300 < 0.6
    reasons = " ".join(example.completion for example in examples)
    assert all(
        part in reasons
        for part in ("is not empty", "do not hold", "is not clear", "is not on", "better to")
    )
    for example in examples:
        state = State(tuple(map(tuple, example.facts["towers"])), example.facts["hand"])
        action, goal = (
            parse_action(example.facts["action"]),
            [tuple(pair) for pair in example.facts["goal"]],
        )
        assert action is not None
        assert example.facts["right"] == useful(state, action, goal)
        right, wrong = ("good", "bad") if example.facts["right"] else ("bad", "good")
        assert TASK.score(example, f" {right}") == 1
        assert TASK.score(example, f" {wrong}. No, {right}.") == 0
        assert TASK.score(example, f" It is {right}.") == 0


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (" good. Red is clear.", True),
        ("Bad", False),
        ("\nbad, not good", False),
        ("goodness", None),
        ("not bad", None),
        ("good or bad", None),
        ("Good? No, bad.", None),
        ("", None),
    ],
)
def test_reading_a_verdict(text, verdict):
    assert parse_evaluation(text) is verdict


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("- {}", False),
        ("2. {}", False),
        ("I {}.", False),
        ("Then {}", False),
        ("Stacks are built from the bottom.\n{}", False),
        ("pick  up the purple block\n{}", True),
        ("- pick up purple\n{}", True),
        ("I pick up purple.\n{}", True),
    ],
)
def test_marks_of_a_list_and_spaces_change_no_action(line, changed):
    """A line that begins as an action is one, whatever stands before it; others are thoughts."""
    for kind in ("plan", "action"):
        example = TASK.examples("held_out", 1, kind)[0]
        first = next(
            text for text in example.completion.strip("\n").split("\n") if begins_as_action(text)
        )
        after = example.completion.partition(first)[2]
        assert TASK.score(example, f"\n{line.format(first)}{after}") == (not changed), kind


def test_prompts_for_a_search_are_those_of_training():
    thoughts = [
        "\nI see red on blue, green; nothing is held.\nBlue must be free.\nunstack red from "
        "blue\nmore",
        "\nI see blue, green; I hold red.\nRed has to go aside.\nput down the red block\n",
    ]
    assert action_prompt("S.", thoughts) == (
        "[STATEMENT]\nS.\nMy plan is as follows:\nunstack the red block from on top of the blue "
        "block\n"
        "I see blue, green; I hold red.\nput down the red block\nThe current action is:"
    )
    assert action_prompt("S.") == "[STATEMENT]\nS.\nMy plan is as follows:\nThe current action is:"
    assert (
        "[ACTION]\nI see blue, green; I hold red.\nput down the red block\n[EVAL"
        in value_prompt("S.", thoughts[1])
    )
    assert "[ACTION]\nput down the red block\n[EVAL" in value_prompt("S.", "put down the red block")
    assert "[ACTION]\nno action\n[EVAL" in value_prompt("S.", "no action\nat all")
    example, shown = TASK.examples("held_out", 1)[0], TASK.examples("train", 1)
    assert example.body == action_prompt(example.body.split("\n")[1], example_thoughts(example))
    assert TASK.prompt(example, shown).startswith("I am playing with a set of blocks")
    assert TASK.prompt(example, shown).endswith("\n\n" + example.body)


def example_thoughts(example: Example) -> list[str]:
    """The thoughts that an example's prompt shows: one for each action, the last with its note."""
    lines = example.body.split("My plan is as follows:\n")[1].split("\n")[:-1]
    return [*lines[:-2], "\n".join(lines[-2:])] if lines else []


@pytest.mark.parametrize("kind", TASK.kinds)
def test_no_text_makes_the_scorer_fail(kind):
    rng, examples = random.Random(kind), TASK.examples("held_out", 20, kind)
    pieces = [
        "pick up ",
        "put down",
        "unstack",
        "stack",
        " the ",
        "red",
        " block",
        " from ",
        " on top of ",
        "\n",
        ".",
        " ",
    ]
    pieces += ["good", "[PLAN END]", "\x00", "İ", "\u2028", "9" * 50, "(", "\\", "\ud800"]
    for _ in range(300):
        text = "".join(rng.choices(pieces, k=rng.randrange(25)))
        assert TASK.score(rng.choice(examples), text) in (0.0, 1.0)
