"""Generated word problems: a rationale that ends "So the answer is N.", and the same sums asked for one by one.

A problem is a chain of events (what is there at first, what happens, what is asked) that all work on one running
number, so that new problems come from new chains and new wordings. The held-out split has only chains with a
neighbouring pair of events that training never has (`RESERVED`), and in each a sentence that training never has.

The three other kinds are the steps of a tree search in which a model asks itself sub-questions, answers them and
values the answers; the wording of their prompts follows the SEED paper (appendix D). A search builds its prompts
with `sub_question_prompt`, `sub_answer_prompt`, `value_prompt` and `state_text`. A sub-question restates the results
that it builds on, so it can be answered without the state; the last one opens with `LAST`, and its sub-answer ends
"So the answer is N."
"""

import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from leapdecode.tasks.answers import final_number, parse_value, sum_result
from leapdecode.tasks.base import Example, Split, Task
from leapdecode.tasks.math_sums import Sum, Unfit, draw, spoil
from leapdecode.tasks.math_text import BOXES, EVENTS, LEADS, NAMES, PLACES, RESERVED, THINGS, Event, Step

LAST = "Now we can answer the question: "
NO_STATE = "None."
STEP_SHARES = {2: 25, 3: 35, 4: 25, 5: 10, 6: 5}  # of a hundred rationales
WORLD_SHARES = {"things": 8, "money": 5, "people": 4, "miles": 3, "pages": 2, "ages": 3}
HELD_OUT_WORDING = 0.3  # share of a held-out problem's sentences that training never has, besides the one it must have


@dataclass(frozen=True)
class Asked:
    """One step of a problem: its sum, ways to ask for it, and ways to answer it ("{eq}" stands for the sum)."""

    sum: Sum
    questions: Sequence[str]
    answers: Sequence[str]


@dataclass(frozen=True)
class Problem:
    """A word problem, its steps, and its skeleton: which events it has, and which wording of each."""

    question: str
    steps: Sequence[Asked]
    skeleton: str

    @property
    def answer(self) -> int:
        return self.steps[-1].sum.result


def is_reserved(chain: Sequence[Event]) -> bool:
    """Whether two neighbours in a chain of events are a pair that is kept out of training."""
    return any((a.name, b.name) in RESERVED for a, b in itertools.pairwise(chain))


def draw_chain(rng: random.Random, split: Split, steps: int) -> list[Event]:
    """Events of one world with `steps` sums in all; with a reserved pair in the held-out split, without in training."""
    world = rng.choices(list(WORLD_SHARES), list(WORLD_SHARES.values()))[0]
    start, middle, final = (
        [event for event in EVENTS if (event.world, event.place) == (world, place)]
        for place in ("start", "middle", "final")
    )
    while True:
        between = rng.sample(middle, min(len(middle), rng.randint(0, steps)))
        chain = [rng.choice(start), *between, rng.choice(final)]
        if sum(len(event.steps) for event in chain) == steps and is_reserved(chain) == (split == "held_out"):
            return chain


def draw_wordings(rng: random.Random, split: Split, chain: Sequence[Event]) -> list[tuple[str, str]]:
    """A short name and a story sentence for every event; at least one of them new to training if held out."""
    surely = rng.randrange(len(chain))
    drawn = []
    for place, event in enumerate(chain):
        fresh = split == "held_out" and (place == surely or rng.random() < HELD_OUT_WORDING)
        choices = event.held_out if fresh else event.train
        index = rng.randrange(len(choices))
        drawn.append((f"{event.name}.{'h' if fresh else 't'}{index}", choices[index]))
    return drawn


def sentence(template: str, fields: dict[str, Any]) -> str:
    """A filled-in template with a capital at the start of each of its sentences; `{eq}` may be left open."""
    text = template.format_map(fields)
    return re.sub(r"(^|[.?] )([a-z])", lambda found: found.group(1) + found.group(2).upper(), text)


def draw_problem(rng: random.Random, split: Split, most_steps: int = 6) -> Problem:
    """A problem of one split with 2 to `most_steps` steps."""
    counts = [count for count in STEP_SHARES if count <= most_steps]
    steps = rng.choices(counts, [STEP_SHARES[count] for count in counts])[0]
    while True:
        try:
            return _tell(rng, split, draw_chain(rng, split, steps))
        except Unfit:
            continue


def _tell(rng: random.Random, split: Split, chain: Sequence[Event]) -> Problem:
    """The story of one chain of events; raises `Unfit` where its numbers come out wrong."""
    people = rng.sample(NAMES, 4 + len(chain))
    box, one = rng.choice(BOXES)
    fields: dict[str, Any] = {"a": people.pop(), "b": people.pop(), "c": people.pop(), "d": people.pop()}
    fields |= {"x": rng.choice(THINGS), "box": box, "one": one, "eq": "{eq}"}
    places = rng.sample(PLACES, len(PLACES))
    n = rng.randint(6, 60)
    story: list[str] = []
    asked: list[Asked] = []
    wordings = draw_wordings(rng, split, chain)
    for event, (_, wording) in zip(chain, wordings, strict=True):
        numbers, sums = draw(rng, event, n)
        fields |= {"n": n, **numbers, "place": places[0]}
        fields["times"] = "twice" if numbers.get("k") == 2 else f"{numbers.get('k')} times"
        fields["lead"] = LEADS[event.world].format_map(fields)
        story.append(sentence(wording, fields))
        asked += [_asked(fields, each, step) for each, step in zip(sums, event.steps, strict=True)]
        n = sums[-1].result if sums else n
        if event.world != "people":  # these stay where they are
            places.append(places.pop(0))
        if event.shift:
            fields |= {"a": fields["c"], "c": people.pop()}
    skeleton = f"{chain[0].world}: " + " ".join(name for name, _ in wordings)
    return Problem(" ".join(story), asked, skeleton)


def _asked(fields: dict[str, Any], each: Sum, step: Step) -> Asked:
    questions = [sentence(template, fields) for template in step.questions]
    return Asked(each, questions, [sentence(template, fields) for template in step.answers])


def state_text(pairs: Sequence[tuple[str, str]]) -> str:
    """The sub-questions and sub-answers so far, one line each ("Sub-question: ...", "Sub-answer: ..."), or "None."."""
    lines = [f"Sub-question: {asked.strip()}\nSub-answer: {answered.strip()}" for asked, answered in pairs]
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
        "Please output a number between 1 and 10 to evaluate the answer. The higher the number, the more help there "
        "is in answering the question.\nThe number is:"
    )


NEEDED = ["It must be {right} indeed.", "The sum is {right} indeed.", "What we need is {right} indeed."]
FOUND = [
    "The answer has {shown} {verdict}.",
    "The sub-answer says {shown} {verdict}.",
]  # the result alone: no repetition
WRONG_VALUES = {"result": (3, 4), "number": (2, 3), "operation": (1, 2)}


class Math(Task):
    """Word problems with a rationale, and their sums as sub-questions, sub-answers and values of sub-answers."""

    name: ClassVar[str] = "math"
    summary: ClassVar[str] = "grade-school word problems: a rationale, or sub-questions, sub-answers and their values"
    kinds: ClassVar[tuple[str, ...]] = ("rationale", "sub_question", "sub_answer", "value")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A new problem, as a whole or one step of it. `facts` has its skeleton, and what `score` needs."""
        if kind == "rationale":
            return self._rationale(rng, draw_problem(rng, split))
        problem = draw_problem(rng, split, most_steps=4)
        place = rng.randrange(len(problem.steps))
        make_step = {"sub_question": self._sub_question, "sub_answer": self._sub_answer, "value": self._value}[kind]
        return make_step(rng, problem, place)

    def score(self, example: Example, text: str) -> float | None:
        """1.0 for the right number, a sub-question among the accepted ones, or a value on the right side of 5.5."""
        if example.kind == "rationale":
            return float(final_number(text.partition("\nQuestion:")[0]) == example.facts["answer"])
        line = text.partition("\nGiven a question:")[0].strip().partition("\n")[0]
        if example.kind == "sub_question":
            return float(_normal(line) in example.facts["accepted"])
        if example.kind == "sub_answer":
            return float(_sub_result(line, example.facts["last"]) == example.facts["answer"])
        value = parse_value(line)
        return float(value is not None and (value >= 6) == example.facts["right"])

    def _rationale(self, rng: random.Random, problem: Problem) -> Example:
        sentences: list[str] = []
        used: set[str] = set()
        for step in problem.steps:
            # The opening words tell sentences apart, so that a rationale does not repeat itself.
            fresh = [answer for answer in step.answers if _opening(answer) not in used] or list(step.answers)
            chosen = rng.choice(fresh)
            used.add(_opening(chosen))
            sentences.append(chosen.format(eq=step.sum))
        completion = f" {' '.join(sentences)} So the answer is {problem.answer}.\n"
        facts = {"answer": problem.answer, "skeleton": problem.skeleton}
        return Example("rationale", f"Question: {problem.question}\nAnswer:", completion, facts)

    def _sub_question(self, rng: random.Random, problem: Problem, place: int) -> Example:
        pairs = [(_ask(rng, problem, at), _answer(rng, problem, at, problem.steps[at].sum)) for at in range(place)]
        facts = {
            "accepted": [_normal(_announce(problem, place, question)) for question in problem.steps[place].questions],
            "skeleton": problem.skeleton,
        }
        body = sub_question_prompt(problem.question, state_text(pairs))
        return Example("sub_question", body, f" {_ask(rng, problem, place)}\n", facts)

    def _sub_answer(self, rng: random.Random, problem: Problem, place: int) -> Example:
        right = problem.steps[place].sum
        body = sub_answer_prompt(problem.question, _ask(rng, problem, place))
        facts = {"answer": right.result, "last": place == len(problem.steps) - 1, "skeleton": problem.skeleton}
        return Example("sub_answer", body, f" {_answer(rng, problem, place, right)}\n", facts)

    def _value(self, rng: random.Random, problem: Problem, place: int) -> Example:
        right, last = problem.steps[place].sum, place == len(problem.steps) - 1
        is_right = rng.random() < 0.5
        how, shown = ("", right) if is_right else spoil(rng, right)
        value = rng.choice(((9, 10) if last else (7, 8)) if is_right else WRONG_VALUES[how])
        # The same word behind equal results: a small model finds it by copying.
        verdict = "indeed" if is_right else "instead"
        reason = f"{rng.choice(NEEDED)} {rng.choice(FOUND)}".format(right=right, shown=shown.result, verdict=verdict)
        body = value_prompt(problem.question, _ask(rng, problem, place), _answer(rng, problem, place, shown))
        return Example(
            "value", body, f" {reason} So the number is {value}.\n", {"right": is_right, "skeleton": problem.skeleton}
        )


def _opening(answer: str) -> str:
    """The first word and the last two of a sentence without its numbers."""
    words = re.sub(r"[0-9]+|\{eq\}", "", answer).split()
    return " ".join([words[0], *words[-2:]])


def _ask(rng: random.Random, problem: Problem, place: int) -> str:
    """One of a step's sub-questions."""
    return _announce(problem, place, rng.choice(problem.steps[place].questions))


def _announce(problem: Problem, place: int, asked: str) -> str:
    """A sub-question; the last step's with the announcement that it answers the whole question."""
    return LAST + asked[0].lower() + asked[1:] if place == len(problem.steps) - 1 else asked


def _answer(rng: random.Random, problem: Problem, place: int, shown: Sum) -> str:
    """One of a step's answers with the sum `shown`, right or wrong."""
    answered = rng.choice(problem.steps[place].answers).format(eq=shown)
    return f"{answered} So the answer is {shown.result}." if place == len(problem.steps) - 1 else answered


def _normal(question: str) -> str:
    """A sub-question up to its question mark, without case and spacing."""
    return " ".join(question.lower().partition("?")[0].split())


def _sub_result(line: str, last: bool) -> Any:
    """The result that a sub-answer states: after "So the answer is" in the last one, else after its first "="."""
    return final_number(line) if last else sum_result(line)
