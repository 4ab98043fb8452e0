"""Blocks world: the next action, a whole plan, or whether an action is a good one."""

from leapdecode_bench.tasks.blocksworld.prompts import action_prompt, plan_prompt, value_prompt
from leapdecode_bench.tasks.blocksworld.reading import (
    parse_action,
    parse_evaluation,
    parse_plan,
    parse_verdict,
)
from leapdecode_bench.tasks.blocksworld.task import LONGEST_WRITTEN, Blocksworld, good_and_bad
from leapdecode_bench.tasks.blocksworld.world import Action, State, apply, legal

__all__ = [
    "LONGEST_WRITTEN",
    "Action",
    "Blocksworld",
    "State",
    "action_prompt",
    "apply",
    "good_and_bad",
    "legal",
    "parse_action",
    "parse_evaluation",
    "parse_plan",
    "parse_verdict",
    "plan_prompt",
    "value_prompt",
]
