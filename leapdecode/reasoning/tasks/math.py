"""Word problems (GSM8K's form in SEED): sub-questions and their answers as thoughts.

The wording of the prompts follows SEED, appendix D. A sub-question restates the results that it
builds on, so it can be answered without the state; the last one opens with `LAST`, and its
sub-answer ends "So the answer is N."
"""

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

LAST = "Now we can answer the question: "
NO_STATE = "None."
LINE = ("\n",)  # a sub-question and a sub-answer are one line each
NEXT_PROMPT = ("\nGiven a question:",)


class MathTree(TreeTask):
    """A thought is two lines: a sub-question, and the sub-answer that was generated for it."""

    name = "math"
    summary = "grade-school word problems: sub-questions and their answers"
    depth = 4

    def think(self, state: State) -> Stages[str]:
        """A sub-question, then its sub-answer."""
        sub_question = yield Stage("sub_question", _next_prompt(state), 64, LINE)
        thought = yield from _answered(state, sub_question.text)
        return thought

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
        prompt = f"{_next_prompt(state)} {LAST.rstrip()}"
        rest = yield Stage("sub_question", prompt, 64, LINE)
        thought = yield from _answered(state, f"{LAST.rstrip()}{rest.text}")
        return _pair(thought)[1]

    def chain(self, question: Question) -> Stages[str]:
        """A rationale that ends with the answer."""
        rationale = yield Stage("rationale", rationale_prompt(question.text), 256, ("\nQuestion:",))
        return rationale.text.strip()

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


def _answered(state: State, sub_question: str) -> Stages[str]:
    """The thought of a sub-question with its sub-answer."""
    prompt = sub_answer_prompt(state.question.text, sub_question)
    answer = yield Stage("sub_answer", prompt, 96, LINE)
    return f"{sub_question.strip()}\n{answer.text.strip()}"


def _pair(thought: str) -> tuple[str, str]:
    """The sub-question and the sub-answer of a thought."""
    sub_question, _, sub_answer = thought.partition("\n")
    return sub_question, sub_answer


def _is_last(thought: str) -> bool:
    return thought.lower().startswith(LAST.lower().rstrip())


def _next_prompt(state: State) -> str:
    """Asks for the sub-question behind a state."""
    text = state_text([_pair(thought) for thought in state.thoughts])
    return sub_question_prompt(state.question.text, text)


def rationale_prompt(question: str) -> str:
    """Asks for a chain of thought that ends with the answer."""
    return f"Question: {question}\nAnswer:"


def state_text(pairs: Sequence[tuple[str, str]]) -> str:
    """The sub-questions and sub-answers so far, one line each ("Sub-question: ...", "Sub-answer:
    ..."), or "None.".
    """
    lines = [
        f"Sub-question: {question.strip()}\nSub-answer: {answer.strip()}"
        for question, answer in pairs
    ]
    return "\n".join(lines) or NO_STATE


def sub_question_prompt(question: str, state: str) -> str:
    """Asks for the next sub-question after `state`, a text that `state_text` made."""
    return (
        f"Given a question: {question}, the previous sub-question and sub-answer is:\n{state}\n"
        "Please output the next sub-question to further reason the question.\nThe sub-question is:"
    )


def sub_answer_prompt(question: str, sub_question: str) -> str:
    """Asks for the answer to a sub-question."""
    return (
        f"Given a question: {question}, the sub-question is: {sub_question.strip()}\n"
        "Please answer the sub-question based on the question.\nThe sub-answer is:"
    )


def value_prompt(question: str, sub_question: str, sub_answer: str) -> str:
    """Asks for a number from 1 to 10, with an explanation, that says how good a sub-answer is."""
    return (
        f"Given a question: {question}, the sub-question is: {sub_question.strip()}, "
        f"the sub-answer is: {sub_answer.strip()}\n"
        "Please output a number between 1 and 10 to evaluate the answer. "
        "The higher the number, the more help there is in answering the question.\n"
        "The number is:"
    )
