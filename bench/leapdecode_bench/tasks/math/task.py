"""Word problems: a rationale that ends "So the answer is N.", and its sums asked for one by one.

The kinds besides the rationale are the steps of a tree search (see `prompts.py`).
"""

import random
import re
from typing import Any, ClassVar

from leapdecode.reasoning.answers import final_number, parse_value, sum_result
from leapdecode.reasoning.tasks.math import (
    LAST,
    rationale_prompt,
    state_text,
    sub_answer_prompt,
    sub_question_prompt,
    value_prompt,
)
from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.math.events import words
from leapdecode_bench.tasks.math.problems import Problem, draw_problem
from leapdecode_bench.tasks.math.sums import Sum, spoil

# What a wrong sub-answer is worth, by what is wrong about it.
WRONG_VALUES = {"result": (3, 4), "number": (2, 3), "operation": (1, 2)}


class Math(Task):
    """Word problems with a rationale, and their sums as steps of a search."""

    name: ClassVar[str] = "math"
    summary: ClassVar[str] = (
        "grade-school word problems: a rationale, or sub-questions, sub-answers and their values"
    )
    kinds: ClassVar[tuple[str, ...]] = ("rationale", "sub_question", "sub_answer", "value")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A new problem, as a whole or one step of it.

        `facts` has its skeleton, and what `score` needs.
        """
        if kind == "rationale":
            return _rationale(rng, draw_problem(rng, split))
        problem = draw_problem(rng, split, most_steps=4)
        number = rng.randrange(len(problem.steps))
        steps = {"sub_question": _sub_question, "sub_answer": _sub_answer, "value": _value}
        return steps[kind](rng, problem, number)

    def score(self, example: Example, text: str) -> float | None:
        """1.0 for the right number, an accepted sub-question, or a value on the right side of 5.5.

        Otherwise 0.0.
        """
        if example.kind == "rationale":
            return float(final_number(text.partition("\nQuestion:")[0]) == example.facts["answer"])
        line = text.partition("\nGiven a question:")[0].strip().partition("\n")[0]
        if example.kind == "sub_question":
            return float(_normal(line) in example.facts["accepted"])
        if example.kind == "sub_answer":
            return float(_sub_result(line, example.facts["last"]) == example.facts["answer"])
        value = parse_value(line)
        return float(value is not None and (value >= 6) == example.facts["right"])


def _rationale(rng: random.Random, problem: Problem) -> Example:
    """The whole problem, with an answer to each step."""
    sentences: list[str] = []
    used: set[str] = set()
    for step in problem.steps:
        # The opening words tell sentences apart, so that a rationale does not repeat itself.
        fresh = [answer for answer in step.answers if _opening(answer) not in used]
        chosen = rng.choice(fresh or step.answers)
        used.add(_opening(chosen))
        sentences.append(chosen.format(eq=step.sum))
    completion = f" {' '.join(sentences)} So the answer is {problem.answer}.\n"
    facts = {"answer": problem.answer, "skeleton": problem.skeleton}
    return Example("rationale", rationale_prompt(problem.question), completion, facts)


def _sub_question(rng: random.Random, problem: Problem, number: int) -> Example:
    """A step to ask for, after those before it."""
    pairs = [
        (_ask(rng, problem, earlier), _answer(rng, problem, earlier, problem.steps[earlier].sum))
        for earlier in range(number)
    ]
    questions = [
        _announce(problem, number, question) for question in problem.steps[number].questions
    ]
    facts = {
        "accepted": [_normal(question) for question in questions],
        "skeleton": problem.skeleton,
    }
    body = sub_question_prompt(problem.question, state_text(pairs))
    return Example("sub_question", body, f" {_ask(rng, problem, number)}\n", facts)


def _sub_answer(rng: random.Random, problem: Problem, number: int) -> Example:
    """A step to answer."""
    right = problem.steps[number].sum
    body = sub_answer_prompt(problem.question, _ask(rng, problem, number))
    facts = {
        "answer": right.result,
        "last": number == len(problem.steps) - 1,
        "skeleton": problem.skeleton,
    }
    return Example("sub_answer", body, f" {_answer(rng, problem, number, right)}\n", facts)


def _value(rng: random.Random, problem: Problem, number: int) -> Example:
    """A step's answer, right or wrong, to value."""
    right = problem.steps[number].sum
    last = number == len(problem.steps) - 1
    is_right = rng.random() < 0.5
    mistake, given_sum = ("", right) if is_right else spoil(rng, right)
    value = rng.choice(((9, 10) if last else (7, 8)) if is_right else WRONG_VALUES[mistake])
    # The same word behind equal results: a small model finds it by copying.
    verdict = "indeed" if is_right else "instead"
    pattern = f"{rng.choice(words().needed)} {rng.choice(words().found)}"
    reason = pattern.format(right=right, shown=given_sum.result, verdict=verdict)
    question = _ask(rng, problem, number)
    body = value_prompt(problem.question, question, _answer(rng, problem, number, given_sum))
    facts = {"right": is_right, "skeleton": problem.skeleton}
    return Example("value", body, f" {reason} So the number is {value}.\n", facts)


def _opening(answer: str) -> str:
    """The first word and the last two of a sentence without its numbers."""
    plain = re.sub(r"[0-9]+|\{eq\}", "", answer).split()
    return " ".join([plain[0], *plain[-2:]])


def _ask(rng: random.Random, problem: Problem, number: int) -> str:
    """One of a step's sub-questions."""
    return _announce(problem, number, rng.choice(problem.steps[number].questions))


def _announce(problem: Problem, number: int, question: str) -> str:
    """A sub-question; the last step's with the announcement that it answers the whole question."""
    return (
        LAST + question[0].lower() + question[1:] if number == len(problem.steps) - 1 else question
    )


def _answer(rng: random.Random, problem: Problem, number: int, given_sum: Sum) -> str:
    """One of a step's answers with the sum `shown`, right or wrong."""
    answered = rng.choice(problem.steps[number].answers).format(eq=given_sum)
    last = number == len(problem.steps) - 1
    return f"{answered} So the answer is {given_sum.result}." if last else answered


def _normal(question: str) -> str:
    """A sub-question up to its question mark, without case and spacing."""
    return " ".join(question.lower().partition("?")[0].split())


def _sub_result(line: str, last: bool) -> Any:
    """The result that a sub-answer states.

    It stands after "So the answer is" in the last one, else after its first "=".
    """
    return final_number(line) if last else sum_result(line)
