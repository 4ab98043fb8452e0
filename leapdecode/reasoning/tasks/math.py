"""Word problems (GSM8K's form in SEED): sub-questions and their answers as thoughts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from leapdecode.model.embedded import examples
from leapdecode.plugins import bench_is_missing, bench_part
from leapdecode.reasoning.answers import final_number
from leapdecode.reasoning.tasks.base import (
    VALUE_TOKENS,
    Question,
    Stage,
    Stages,
    State,
    TreeTask,
)
from leapdecode.reasoning.tasks.math_prompts import (
    LAST,
    rationale_prompt,
    state_text,
    sub_answer_prompt,
    sub_question_prompt,
    value_prompt,
)

LINE = ("\n",)  # a sub-question and a sub-answer are one line each
NEXT_PROMPT = ("\nGiven a question:",)


class MathTree(TreeTask):
    """A thought is two lines: a sub-question, and the sub-answer that was generated for it."""

    name = "math"
    summary = "grade-school word problems: sub-questions and their answers"
    depth = 4

    def think(self, state: State) -> Stages[str]:
        """A sub-question, then its sub-answer."""
        asked = yield Stage("sub_question", _sub_question_prompt(state), 64, LINE)
        answer = yield from _answered(state, asked.text)
        return answer

    def evaluation(self, state: State) -> Stage:
        """Asks for the value of the last sub-answer."""
        prompt = value_prompt(state.question.text, *_pair(state.thoughts[-1]))
        return Stage("value", prompt, VALUE_TOKENS, NEXT_PROMPT)

    def is_final(self, state: State) -> bool:
        """Whether the last sub-question announced itself as the last one."""
        return state.thoughts[-1:] != () and _is_last(state.thoughts[-1])

    def finish(self, state: State) -> Stages[str]:
        """The answer to the whole question.

        That is the last sub-answer of a final state. Else the rest of a sub-question that is made
        to open as the last one, and its answer.
        """
        if self.is_final(state):
            return _pair(state.thoughts[-1])[1]
        opening = f"{_sub_question_prompt(state)} {LAST.rstrip()}"
        asked = yield Stage("sub_question", opening, 64, LINE)
        thought = yield from _answered(state, f"{LAST.rstrip()}{asked.text}")
        return _pair(thought)[1]

    def chain(self, question: Question) -> Stages[str]:
        """A rationale that ends with the answer."""
        found = yield Stage("rationale", rationale_prompt(question.text), 256, ("\nQuestion:",))
        return found.text.strip()

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """1 for the right number behind "So the answer is", else 0."""
        return float(final_number(answer) == facts["answer"])

    def questions(self, count: int, seed: int = 0) -> Sequence[Question]:
        """Held-out problems of at most as many steps as the tree is deep.

        The demo pair's package holds the first ones of seed 0; leapdecode-bench draws any number.
        """
        draw = bench_part("problems")
        if draw is not None:
            problems = [draw(f"tree/math/{seed}/{number}", self.depth) for number in range(count)]
        else:
            lines = examples("trees.jsonl").read_text(encoding="utf-8").splitlines()
            problems = [json.loads(line) for line in lines[:count]]
            if seed or len(problems) < count:
                raise bench_is_missing(f"more than {len(lines)} problems, or another seed,")
        return [Question(problem["text"], {"answer": problem["answer"]}) for problem in problems]


def _answered(state: State, asked: str) -> Stages[str]:
    """The thought of a sub-question with its sub-answer."""
    prompt = sub_answer_prompt(state.question.text, asked)
    answer = yield Stage("sub_answer", prompt, 96, LINE)
    return f"{asked.strip()}\n{answer.text.strip()}"


def _pair(thought: str) -> tuple[str, str]:
    """The sub-question and the sub-answer of a thought."""
    asked, _, answered = thought.partition("\n")
    return asked, answered


def _is_last(thought: str) -> bool:
    return thought.lower().startswith(LAST.lower().rstrip())


def _sub_question_prompt(state: State) -> str:
    text = state_text([_pair(thought) for thought in state.thoughts])
    return sub_question_prompt(state.question.text, text)
