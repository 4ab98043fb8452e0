"""Blocks world: the next action, a whole plan, or whether an action is a good one."""

from leapdecode_bench.tasks.blocksworld.prompts import action_prompt, plan_prompt, value_prompt
from leapdecode_bench.tasks.blocksworld.reading import parse_action, parse_evaluation, parse_plan
from leapdecode_bench.tasks.blocksworld.task import LONGEST_WRITTEN, Blocksworld
from leapdecode_bench.tasks.blocksworld.world import Action, State, apply, legal

__all__ = [
    "LONGEST_WRITTEN",
    "Action",
    "Blocksworld",
    "State",
    "action_prompt",
    "apply",
    "legal",
    "parse_action",
    "parse_evaluation",
    "parse_plan",
    "plan_prompt",
    "value_prompt",
]
