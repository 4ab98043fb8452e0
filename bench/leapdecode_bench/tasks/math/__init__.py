"""Word problems: a rationale, or the sub-questions, sub-answers and values of a tree search."""

from leapdecode.reasoning.tasks.math import (
    LAST,
    NO_STATE,
    rationale_prompt,
    state_text,
    sub_answer_prompt,
    sub_question_prompt,
    value_prompt,
)
from leapdecode_bench.tasks.math.task import Math

__all__ = [
    "LAST",
    "NO_STATE",
    "Math",
    "rationale_prompt",
    "state_text",
    "sub_answer_prompt",
    "sub_question_prompt",
    "value_prompt",
]
