"""Blocksworld, problems of six steps (SEED; Hao et al., 2023; Valmeekam et al., 2023)."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leapdecode.reasoning.fastcot.questions import SEPARATOR
from leapdecode_bench.tasks.blocksworld import Blocksworld, plan_prompt
from leapdecode_bench.tasks.blocksworld.prompts import header
from leapdecode_bench.tasks.blocksworld.reading import END, parse_plan
from leapdecode_bench.tasks.blocksworld.world import State, reached, run
from leapdecode_bench.tasks.english import listed
from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.reading import MISSING, Row

# PlanBench's names of the blocks a to p
COLOURS = (
    "red", "blue", "orange", "yellow", "white", "magenta", "black", "cyan", "green", "violet",
    "silver", "gold",
)  # fmt: skip
_COMMENT = re.compile(r";[^\n]*")
_ATOM = re.compile(r"\(\s*([a-z][\w-]*)((?:\s+[\w-]+)*)\s*\)")


@dataclass(frozen=True)
class Problem:
    """Where the blocks are, and which must lie on which."""

    state: State
    goal: list[tuple[str, str]]


def read_problem(text: str) -> Problem:
    """The problem of a PDDL file; raises ValueError that says what is wrong."""
    plain = _COMMENT.sub("", text).lower()
    opening, middle, ending = plain.partition("(:goal")
    _, begins, facts = opening.partition("(:init")
    if not middle or not begins:
        raise ValueError("has no (:init or no (:goal")
    atoms = _atoms(facts)
    below = {_colour(atom[1]): _colour(atom[2]) for atom in atoms if atom[0] == "on"}
    bottoms = [_colour(atom[1]) for atom in atoms if atom[0] == "ontable"]
    held = [_colour(atom[1]) for atom in atoms if atom[0] == "holding"]
    towers = tuple(tuple(_tower(bottom, below)) for bottom in bottoms)
    if sum(map(len, towers)) != len(bottoms) + len(below) or not (towers or held):
        raise ValueError("has blocks that lie nowhere")
    goal = [(_colour(atom[1]), _colour(atom[2])) for atom in _atoms(ending) if atom[0] == "on"]
    if not goal:
        raise ValueError("has no block in its goal that lies on another")
    return Problem(State(towers, held[0] if held else None), goal)


def statement(problem: Problem) -> str:
    """The problem in PlanBench's words."""
    state = problem.state
    facts = [f"the {block} block is clear" for block in sorted(state.clear())]
    facts.append(
        f"the hand is holding the {state.hand} block" if state.hand else "the hand is empty"
    )
    for tower in state.towers:
        pairs = zip(tower[1:], tower, strict=False)
        facts += [f"the {top} block is on top of the {low} block" for top, low in pairs]
    facts += [f"the {tower[0]} block is on the table" for tower in state.towers]
    goal = [f"the {top} block is on top of the {low} block" for top, low in problem.goal]
    return (
        f"As initial conditions I have that, {listed(facts)}.\n"
        f"My goal is to have that {listed(goal)}."
    )


def _atoms(text: str) -> list[list[str]]:
    """The innermost parentheses as words, those with as many words as their name asks."""
    lengths = {"on": 3, "ontable": 2, "holding": 2}
    atoms = [[match[1], *match[2].split()] for match in _ATOM.finditer(text)]
    for words in atoms:
        if words[0] in lengths and len(words) != lengths[words[0]]:
            raise ValueError(f"has ({' '.join(words)}), which names too few or too many blocks")
    return atoms


def _colour(block: str) -> str:
    """The colour that a letter stands for; longer names are kept."""
    number = ord(block) - ord("a") if len(block) == 1 else -1
    return COLOURS[number] if 0 <= number < len(COLOURS) else block


def _tower(bottom: str, below: dict[str, str]) -> list[str]:
    above = {low: top for top, low in below.items()}
    tower = [bottom]
    while tower[-1] in above and len(tower) <= len(below):
        tower.append(above[tower[-1]])
    return tower


class Blocksworld6(PublicSet):
    """A list of [PDDL file, plan, steps], as split_v1_step_6_data.json is.

    The PDDL files are looked for from the list's folder upwards. Worked examples are this library's
    own problems.
    """

    name = "blocksworld6"
    summary = "blocks world, problems of six steps: a plan that reaches the goal"
    files = ("blocksworld6.json", "blocksworld6/split_v1_step_6_data.json")
    origin = "split_v1_step_6_data.json of llm-reasoners beside the folder LLMs-Planning"
    stop = (END, "\n[STATEMENT]")
    shots = 4

    def item(self, row: Row) -> Item:
        """The statement of a problem; its towers and its goal."""
        named = Path(row.text("0"))
        path = _found(named, Path(row.place.rpartition(", ")[0]))
        if path is None:
            row.refuse("0", f"names {named}, which is neither beside the list nor above it")
        try:
            problem = read_problem(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            row.refuse("0", f"names {path}, which {error}")
        steps = row.value("2")
        if steps is not MISSING and (not isinstance(steps, int) or isinstance(steps, bool)):
            row.refuse("2", "must be the number of steps")
        state, text = problem.state, statement(problem)
        facts: dict[str, Any] = {
            "towers": [list(tower) for tower in state.towers],
            "hand": state.hand,
        }
        facts |= {"goal": [list(pair) for pair in problem.goal], "question": text}
        return Item(named.name, plan_prompt(text), facts=facts)

    def score(self, item: Item, text: str) -> float:
        """1 for a plan of allowed actions that reaches the goal, else 0."""
        plan = parse_plan(f"{text}\n{END}\n")
        state = State(tuple(map(tuple, item.facts["towers"])), item.facts["hand"])
        after = None if plan is None else run(state, plan)
        goal = [(block, low) for block, low in item.facts["goal"]]
        return float(after is not None and reached(after, goal))

    def demonstrations(self, count: int) -> str:
        """The published rules, and problems of this library with their plans."""
        examples = Blocksworld().examples("train", count, "plan")
        return header() + "".join(
            example.body + example.completion + SEPARATOR for example in examples
        )


def _found(named: Path, listing: Path) -> Path | None:
    """The file of a name that is relative to some folder above the list."""
    places = [parent / named for parent in (*listing.absolute().parents, Path())]
    return next((path for path in places if path.is_file()), None)
