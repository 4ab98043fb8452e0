"""Blocks world (SEED): actions as thoughts, good or bad, scored by a simulator."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode.reasoning.jobs import Examples
from leapdecode.reasoning.tasks.base import (
    VALUE_TOKENS,
    Question,
    Stage,
    Stages,
    State,
    TreeTask,
)
from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.blocksworld import (
    Action,
    Blocksworld,
    action_prompt,
    good_and_bad,
    parse_action,
    parse_plan,
    parse_verdict,
    plan_prompt,
    value_prompt,
)
from leapdecode_bench.tasks.blocksworld.prompts import header
from leapdecode_bench.tasks.blocksworld.world import State as Blocks
from leapdecode_bench.tasks.blocksworld.world import reached, run

GOOD, BAD = 10.0, 1.0  # a verdict as a value
NO_ACTION = "?"  # a line of a plan whose thought has no action
NEXT_PROMPT = ("\n[",)
SHOWN = 4  # worked examples where prompts have any: of evaluations two good and two bad actions
PLAN_PROMPT = plan_prompt("\0").split("\0")


class BlocksworldTree(TreeTask):
    """A thought is a note of the towers, a reason and an action.

    Models other than the embedded pair see worked examples before the problem, of evaluations good
    and bad ones (SEED, appendix D); they are of this library's own problems.

    Where the problem is known, a state whose actions reach the goal is final.
    """

    name = "blocksworld"
    summary = "blocks world: an action a thought, good or bad"
    depth = 7

    def think(self, state: State) -> Stages[str]:
        """The next action, with a note and a reason."""
        prompt = action_prompt(state.question.text, state.thoughts)
        result = yield self._stage("action", prompt, 96)
        return result.text.strip()

    def evaluation(self, state: State) -> Stage:
        """Asks whether the last action is a good one."""
        prompt = value_prompt(state.question.text, state.thoughts[-1])
        return self._stage("value", prompt, VALUE_TOKENS)

    def parse(self, text: str) -> float | None:
        """10 for "good", 1 for "bad"."""
        verdict = parse_verdict(text)
        return None if verdict is None else (GOOD if verdict else BAD)

    def is_final(self, state: State) -> bool:
        """Whether the simulator says that the goal is reached."""
        return state.question.facts is not None and _reaches(
            state.question.facts, [parse_action(thought) for thought in state.thoughts]
        )

    def finish(self, state: State) -> Stages[str]:
        """The plan, an action a line; one action more is generated where it is not final."""
        thoughts = state.thoughts
        if not self.is_final(state):
            thoughts = (*thoughts, (yield from self.think(state)))
        return "\n".join(str(parse_action(thought) or NO_ACTION) for thought in thoughts)

    def chain(self, question: Question) -> Stages[str]:
        """A whole plan in one text."""
        result = yield self._stage("plan", plan_prompt(question.text), 256)
        plan = parse_plan(result.text)
        return NO_ACTION if plan is None else "\n".join(map(str, plan))

    def _stage(self, kind: str, prompt: str, max_tokens: int) -> Stage:
        """A generation behind the rules, and behind worked examples where there are any."""
        if self.instructs:
            return Stage(kind, prompt, max_tokens, NEXT_PROMPT, examples=demonstrations(kind))
        return Stage(kind, header() + prompt, max_tokens, NEXT_PROMPT)

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """1 for a plan that reaches the goal by allowed actions, else 0."""
        return float(_reaches(facts, [parse_action(line) for line in answer.splitlines()]))

    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """Held-out problems of at most six actions."""
        before, after = PLAN_PROMPT
        examples = Blocksworld().examples("held_out", count, "plan", seed)
        return [
            Question(example.body.removeprefix(before).removesuffix(after), example.facts)
            for example in examples
        ]


@functools.cache
def demonstrations(kind: str) -> Examples:
    """Training examples of this library, the first behind the rules."""
    examples: Sequence[Example]
    if kind == "value":
        examples = good_and_bad(SHOWN)
    else:
        examples = Blocksworld().examples("train", SHOWN, kind)
    shown = [(example.body, example.completion.rstrip("\n")) for example in examples]
    return ((header() + shown[0][0], shown[0][1]), *shown[1:])


def _reaches(facts: Mapping[str, Any], actions: Sequence[Action | None]) -> bool:
    """Whether actions, all of them readable and allowed, lead to the goal."""
    allowed = [action for action in actions if action is not None]
    start = Blocks(tuple(map(tuple, facts["towers"])), facts["hand"])
    end = run(start, allowed) if len(allowed) == len(actions) else None
    return end is not None and reached(end, [(block, low) for block, low in facts["goal"]])
