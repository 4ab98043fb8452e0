"""The prompts of the blocks world, published with SEED (Wang et al., 2024, appendix D).

They follow PlanBench (Valmeekam et al., 2023).
"""

from collections.abc import Sequence

from leapdecode_bench.tasks.blocksworld.reading import parse_action, parse_line
from leapdecode_bench.tasks.data import load_text


def header() -> str:
    """The published rules, which open the prompts of every kind."""
    return load_text("blocksworld/rules.txt") + "\n"


def action_prompt(statement: str, thoughts: Sequence[str] = ()) -> str:
    """The prompt for the next thought, after thoughts as models write them: note, reason, action.

    Only the last thought keeps its note, and no thought its reason: the action lines alone are the
    plan so far.
    """
    lines = [str(action) for action in map(parse_action, thoughts[:-1]) if action]
    lines += [without_reason(thought) for thought in thoughts[-1:]]
    so_far = "".join(f"{line}\n" for line in lines)
    return f"[STATEMENT]\n{statement}\nMy plan is as follows:\n{so_far}The current action is:"


def plan_prompt(statement: str) -> str:
    """The prompt for a whole plan."""
    return f"[STATEMENT]\n{statement}\nMy plan is as follows:"


def value_prompt(statement: str, thought: str) -> str:
    """The prompt for an evaluation of a thought's action, under the conditions it notes."""
    return (
        "Please evaluate whether the given action is a good one under certain conditions.\n"
        f"[STATEMENT]\n{statement}\n[ACTION]\n{without_reason(thought)}\n"
        "[EVALUATION]\nThe evaluation is:"
    )


def without_reason(thought: str) -> str:
    """A thought's first line and its action, without what lies between them or follows."""
    lines = [line.strip() for line in thought.splitlines() if line.strip()]
    number = next((number for number, line in enumerate(lines) if parse_line(line)), None)
    shortened = lines[:1] if number is None else [*lines[: min(1, number)], lines[number]]
    return "\n".join(shortened)
