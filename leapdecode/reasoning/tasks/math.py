"""Word problems (GSM8K's form in SEED): sub-questions and their answers as thoughts.

The wording of the prompts follows SEED, appendix D. A sub-question restates the results that it
builds on, so it can be answered without the state; the last one opens with `LAST`, and its
sub-answer ends "So the answer is N." The embedded pair was trained to write so. Other models are
told to, and see a worked example; their sub-answers may be several lines, and see the state.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leapdecode.model.embedded import examples
from leapdecode.plugins import bench_is_missing, bench_part
from leapdecode.reasoning.answers import concluded_number
from leapdecode.reasoning.jobs import Examples
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
LINE = ("\n",)  # a sub-question, and a sub-answer of the embedded pair, are one line
NEXT_PROMPT = ("\nGiven a question:",)
NEXT_ANSWER = ("\nThe sub-answer", "\nSub-answer", *NEXT_PROMPT)
QUESTION_TOKENS = 96  # of a sub-question with what a model says around it
ANSWER_TOKENS = 256  # of a sub-answer of several lines
HOW_TO_ASK = (
    "Write one sub-question, in one line. If all that it needs is known, write "
    f'"{LAST.strip()}" and the whole question.'
)
HOW_TO_ANSWER = 'Reason in a few sentences. End with "So the answer is" and the number.'
CONCLUSION = "So the answer is"
HOW_TO_VALUE = "Write the number first, then explain it in a sentence."


_HEADING = re.compile(
    r"^.{0,60}\bsub-?question(?: [0-9]+)?(?: (?:is|could be))?\**:", re.IGNORECASE
)


class MathTree(TreeTask):
    """A thought is a line with a sub-question, then the sub-answer that was generated for it."""

    name = "math"
    summary = "grade-school word problems: sub-questions and their answers"
    depth = 4

    def think(self, state: State) -> Stages[str]:
        """A sub-question, then its sub-answer."""
        sub_question = yield self._sub_question(state)
        thought = yield from self._answered(state, sub_question.text)
        return thought

    def evaluation(self, state: State) -> Stage:
        """Asks for the value of the last sub-answer."""
        pair = _pair(state.thoughts[-1])
        if not self.instructs:
            prompt = value_prompt(state.question.text, *pair)
            return Stage("value", prompt, VALUE_TOKENS, NEXT_PROMPT)
        prompt = value_prompt(state.question.text, *pair, HOW_TO_VALUE)
        examples = EXAMPLE.evaluations()
        return Stage("value", prompt, VALUE_TOKENS, NEXT_PROMPT, examples=examples)

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
        opening = LAST.rstrip()
        rest = yield self._sub_question(state, opening=f" {opening}")
        thought = yield from self._answered(state, f"{opening}{rest.text}")
        return _pair(thought)[1]

    def chain(self, question: Question) -> Stages[str]:
        """A rationale that ends with the answer."""
        prompt = rationale_prompt(question.text, HOW_TO_ANSWER if self.instructs else "")
        examples = EXAMPLE.chain() if self.instructs else ()
        stop = ("\nQuestion:",)
        rationale = yield Stage("rationale", prompt, 256, stop, examples=examples)
        return rationale.text.strip()

    def _sub_question(self, state: State, opening: str = "") -> Stage:
        """Asks for the sub-question behind a state."""
        question = state.question.text
        text = _text_of(state)
        if not self.instructs:
            prompt = sub_question_prompt(question, text) + opening
            return Stage("sub_question", prompt, 64, LINE, opening)
        prompt = sub_question_prompt(question, text, HOW_TO_ASK) + opening
        examples = EXAMPLE.sub_questions()
        return Stage("sub_question", prompt, QUESTION_TOKENS, NEXT_ANSWER, opening, examples)

    def _answered(self, state: State, sub_question: str) -> Stages[str]:
        """The thought of a sub-question with its sub-answer."""
        if self.instructs:
            sub_question = question_line(sub_question)
            text = _text_of(state)
            prompt = sub_answer_prompt(state.question.text, sub_question, HOW_TO_ANSWER, text)
            examples = EXAMPLE.sub_answers()
            stage = Stage("sub_answer", prompt, ANSWER_TOKENS, NEXT_PROMPT, examples=examples)
        else:
            prompt = sub_answer_prompt(state.question.text, sub_question)
            stage = Stage("sub_answer", prompt, 96, LINE)
        answer = yield stage
        return f"{sub_question.strip()}\n{answer.text.strip()}"

    def score(self, facts: Mapping[str, Any], answer: str) -> float:
        """1 for the right number, see `concluded_number`, else 0."""
        return float(concluded_number(answer) == facts["answer"])

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


def _pair(thought: str) -> tuple[str, str]:
    """The sub-question and the sub-answer of a thought."""
    sub_question, _, sub_answer = thought.partition("\n")
    return sub_question, sub_answer


def question_line(text: str) -> str:
    """The sub-question in a reply: its first line that asks something, without a heading and
    quotation marks; else the first line.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if line.rstrip("\"'*").endswith("?")), (lines or [""])[0])
    return _HEADING.sub("", line).strip(" \"'*")


def _is_last(thought: str) -> bool:
    return thought.lower().startswith(LAST.lower().rstrip())


def _text_of(state: State) -> str:
    """The sub-questions and sub-answers of a state."""
    return state_text([_pair(thought) for thought in state.thoughts])


def rationale_prompt(question: str, how: str = "") -> str:
    """Asks for a chain of thought that ends with the answer; `how` says how it is to be written."""
    return f"Question: {question}\n{_line(how)}Answer:"


def _line(how: str) -> str:
    """A line of a prompt; nothing where there is nothing to say."""
    return f"{how}\n" if how else ""


def state_text(pairs: Sequence[tuple[str, str]]) -> str:
    """The sub-questions and sub-answers so far, one line each ("Sub-question: ...", "Sub-answer:
    ..."), or "None.".
    """
    lines = [
        f"Sub-question: {question.strip()}\nSub-answer: {answer.strip()}"
        for question, answer in pairs
    ]
    return "\n".join(lines) or NO_STATE


def sub_question_prompt(question: str, state: str, how: str = "") -> str:
    """Asks for the next sub-question after `state`, a text that `state_text` made."""
    return (
        f"Given a question: {question}, the previous sub-question and sub-answer is:\n{state}\n"
        "Please output the next sub-question to further reason the question.\n"
        f"{_line(how)}The sub-question is:"
    )


def sub_answer_prompt(question: str, sub_question: str, how: str = "", state: str = "") -> str:
    """Asks for the answer to a sub-question, after `state` where it is shown."""
    before = f", the previous sub-question and sub-answer is:\n{state}\n" if state else ", "
    return (
        f"Given a question: {question}{before}the sub-question is: {sub_question.strip()}\n"
        f"Please answer the sub-question based on the question.\n{_line(how)}The sub-answer is:"
    )


def value_prompt(question: str, sub_question: str, sub_answer: str, how: str = "") -> str:
    """Asks for a number from 1 to 10, with an explanation, that says how good a sub-answer is."""
    return (
        f"Given a question: {question}, the sub-question is: {sub_question.strip()}, "
        f"the sub-answer is: {sub_answer.strip()}\n"
        "Please output a number between 1 and 10 to evaluate the answer. "
        "The higher the number, the more help there is in answering the question.\n"
        f"{_line(how)}The number is:"
    )


@dataclass(frozen=True)
class WorkedExample:
    """A question with two steps, as prompts of other models than the embedded pair show it.

    Attributes:
        pairs: sub-questions with sub-answers.
        values: of each pair, what an evaluation says; the last is of `wrong`.
        wrong: a sub-answer to the first sub-question that does not help.
    """

    question: str
    pairs: tuple[tuple[str, str], ...]
    values: tuple[str, ...]
    wrong: str

    def sub_questions(self) -> Examples:
        """How a next sub-question is asked for and written."""
        return tuple(
            (
                sub_question_prompt(self.question, state_text(self.pairs[:number]), HOW_TO_ASK),
                f" {sub_question}",
            )
            for number, (sub_question, _) in enumerate(self.pairs)
        )

    def sub_answers(self) -> Examples:
        """How the answer to a sub-question is asked for and written."""
        shown = []
        for number, (sub_question, sub_answer) in enumerate(self.pairs):
            text = state_text(self.pairs[:number])
            prompt = sub_answer_prompt(self.question, sub_question, HOW_TO_ANSWER, text)
            shown.append((prompt, f" {sub_answer}"))
        return tuple(shown)

    def evaluations(self) -> Examples:
        """How a value is asked for and written."""
        judged = (*self.pairs, (self.pairs[0][0], self.wrong))
        return tuple(
            (value_prompt(self.question, *pair, HOW_TO_VALUE), f" {value}")
            for pair, value in zip(judged, self.values, strict=True)
        )

    def chain(self) -> Examples:
        """How a chain of thought is asked for and written."""
        steps = [sub_answer.partition(CONCLUSION) for _, sub_answer in self.pairs]
        text = "".join(f" {reason.strip()}" for reason, _, _ in steps)
        answer = f"{text} {CONCLUSION}{steps[-1][2]}"
        return ((rationale_prompt(self.question, HOW_TO_ANSWER), answer),)


EXAMPLE = WorkedExample(
    "A shelf holds 6 boxes with 12 jars each. 9 jars are broken. How many jars are whole?",
    (
        (
            "How many jars are in 6 boxes with 12 jars each?",
            "6 boxes with 12 jars each hold 6 * 12 = 72 jars. So the answer is 72.",
        ),
        (
            f"{LAST}if 9 of the 72 jars are broken, how many jars are whole?",
            "Of 72 jars 9 are broken, so 72 - 9 = 63 jars are whole. So the answer is 63.",
        ),
    ),
    (
        "9. It gives the number of all jars, which is needed next.",
        "10. It subtracts the broken jars and answers the question.",
        "2. Boxes and jars are not to be added.",
    ),
    "There are 6 + 12 = 18 jars. So the answer is 18.",
)
