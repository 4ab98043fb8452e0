"""Creative writing (SEED): thoughts are plans with passages, the answer is written to the best."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode.reasoning.tasks.base import (
    VALUE_TOKENS,
    Question,
    Stage,
    Stages,
    State,
    TreeTask,
)
from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.passage import Passage, passage_prompt, value_prompt

TOKENS = 320  # of a plan with its passage
HEADING = re.compile(r"\n[#*]*Passage:\**")
HOW_TO_VALUE = "Write the score first, then explain it in a few sentences."
_NUMBER = re.compile(r"^\s*[0-9]+[.)]\s+")


class PassageTree(TreeTask):
    """A question is the end sentences of the paragraphs, one a line."""

    name = "passage"
    summary = "creative writing: a plan and paragraphs that end as asked, one end sentence a line"
    depth = 2

    def think(self, state: State) -> Stages[str]:
        """A plan and a passage."""
        result = yield Stage("passage", _prompt(state), TOKENS)
        return result.text.strip()

    def evaluation(self, state: State) -> Stage:
        """Asks how coherent the passage of the last thought is."""
        how = HOW_TO_VALUE if self.instructs else ""
        return Stage("value", value_prompt(state.thoughts[-1], how), VALUE_TOKENS)

    def is_final(self, state: State) -> bool:
        """Never: an answer is written to the best plan."""
        return False

    def finish(self, state: State) -> Stages[str]:
        """The plan of the best thought, and a passage that is written to it.

        A plan of its own where no thought has one.
        """
        thought = (state.thoughts or ("",))[-1]
        heading = HEADING.search(thought)
        beginning = f"{thought[: heading.end()]}\n" if heading else ""
        opening = f"\n{beginning}" if beginning else ""
        result = yield Stage("passage", _prompt(state) + opening, TOKENS, opening=opening)
        return (beginning + result.text).strip()

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """1 for paragraphs that all end as given, else 0."""
        return Passage().score(Example("passage", "", "", dict(facts)), answer)

    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """Held-out end sentences."""
        examples = Passage().examples("held_out", count, "passage", seed)
        return [Question("\n".join(example.facts["ends"]), example.facts) for example in examples]


def _prompt(state: State) -> str:
    lines = [_NUMBER.sub("", line).strip() for line in state.question.text.splitlines()]
    return passage_prompt([line for line in lines if line])
