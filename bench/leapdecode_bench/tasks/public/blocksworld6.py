"""Blocksworld, problems of six steps (SEED; Hao et al., 2023; Valmeekam et al., 2023)."""

from pathlib import Path
from typing import Any

from leapdecode.reasoning.fastcot.questions import SEPARATOR
from leapdecode_bench.tasks.blocksworld import Blocksworld, plan_prompt
from leapdecode_bench.tasks.blocksworld.prompts import header
from leapdecode_bench.tasks.blocksworld.reading import END, parse_plan
from leapdecode_bench.tasks.blocksworld.world import State, reached, run
from leapdecode_bench.tasks.public.base import Item, PublicSet
from leapdecode_bench.tasks.public.pddl import read_problem, statement
from leapdecode_bench.tasks.public.rows import MISSING, Row


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
