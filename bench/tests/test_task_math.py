"""The math task: its sums are right, its splits share no skeleton, and its scorer tells right from
wrong.
"""

import itertools
import random
import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leapdecode_bench.tasks.base import Example, Split
from leapdecode_bench.tasks.math import (
    LAST,
    Math,
    state_text,
    sub_answer_prompt,
    sub_question_prompt,
    value_prompt,
)
from leapdecode_bench.tasks.math.events import WORLD_SHARES, events
from leapdecode_bench.tasks.math.events import words as math_words
from leapdecode_bench.tasks.math.problems import STEP_SHARES, draw_chain, draw_problem

EVENTS, RESERVED = events(), math_words().reserved
MATH = Math()
SPLITS: tuple[Split, ...] = ("train", "held_out")
BOTH = pytest.mark.parametrize("split", SPLITS)
EACH = pytest.mark.parametrize("kind", Math.kinds)
EQUATION = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
LONGEST = 1100  # characters; about 280 tokens


def is_true(equation: tuple[str, str, str, str]) -> bool:
    left, right, result = int(equation[0]), int(equation[2]), int(equation[3])
    worked_out = {"+": left + right, "-": left - right, "*": left * right, "/": left / right}
    return worked_out[equation[1]] == result


@BOTH
@EACH
def test_references_score_one_and_fit(split: Split, kind: str) -> None:
    for example in MATH.examples(split, 300, kind):
        assert MATH.score(example, example.completion) == 1.0
        assert (
            MATH.score(example, example.completion + "\nQuestion: So the answer is 1000.\n= 1000?")
            == 1.0
        )
        assert example.completion.startswith(" ")
        assert example.completion.endswith("\n")
        assert example.body == example.body.strip()
        assert len(example.body + example.completion) <= LONGEST
        assert not re.search(r"[{}]|None times|  ", example.body + example.completion)


@EACH
def test_examples_depend_on_their_seed_alone(kind: str) -> None:
    assert MATH.examples("train", 5, kind) == MATH.examples("train", 9, kind)[:5]
    assert MATH.examples("train", 5, kind) != MATH.examples("train", 5, kind, seed=1)


@BOTH
def test_every_sum_of_a_rationale_is_true_and_of_known_numbers(split: Split) -> None:
    lengths = Counter()
    for example in MATH.examples(split, 500):
        equations = EQUATION.findall(example.completion)
        lengths[len(equations)] += 1
        known = {2, *map(int, re.findall(r"\d+", example.body))}  # 2: "twice", "half"
        for equation in equations:
            assert is_true(equation), example
            assert {int(equation[0]), int(equation[2])} <= known, example
            known.add(int(equation[3]))
        assert example.completion.endswith(f" So the answer is {equations[-1][3]}.\n")
        assert str(example.facts["answer"]) == equations[-1][3]
        assert example.completion.count(". ") >= len(equations)
    assert set(lengths) == set(STEP_SHARES)


@BOTH
def test_a_sub_answer_can_be_read_off_its_prompt(split: Split) -> None:
    for example in MATH.examples(split, 300, "sub_answer"):
        (equation,) = EQUATION.findall(example.completion)
        assert is_true(equation)
        known = {2, *map(int, re.findall(r"\d+", example.body))}
        assert {int(equation[0]), int(equation[2])} <= known, example
        assert (
            (LAST in example.body)
            == example.facts["last"]
            == ("So the answer is" in example.completion)
        )


@BOTH
def test_values_judge_the_sum_they_were_shown(split: Split) -> None:
    rights = Counter()
    for example in MATH.examples(split, 400, "value"):
        (shown,) = EQUATION.findall(example.body)
        (needed,) = EQUATION.findall(example.completion)
        (found,) = re.findall(r"(?:has|says) (\d+) (indeed|instead)", example.completion)
        value = int(example.completion.split("the number is ")[1].rstrip(".\n"))
        right = example.facts["right"]
        rights[right] += 1
        assert is_true(needed)
        assert found == (shown[3], "indeed" if right else "instead")
        assert (needed == shown) == right
        assert value in (range(7, 11) if right else range(1, 5))
    assert 0.4 < rights[True] / rights.total() < 0.6


def words(split: Split) -> set[str]:
    examples = [example for kind in Math.kinds for example in MATH.examples(split, 1000, kind)]
    return {
        word
        for example in examples
        for word in re.findall(r"[a-z]+", (example.body + example.completion).lower())
    }


def test_no_skeleton_is_in_both_splits() -> None:
    seen = {}
    for split in SPLITS:
        skeletons = {
            example.facts["skeleton"]
            for kind in Math.kinds
            for example in MATH.examples(split, 400, kind)
        }
        for skeleton in skeletons:
            parts = [part.split(".") for part in skeleton.partition(": ")[2].split()]
            fresh = any(wording.startswith("h") for _, wording in parts)
            reserved = any(
                pair in RESERVED for pair in itertools.pairwise(name for name, _ in parts)
            )
            assert fresh == reserved == (split == "held_out"), skeleton
        seen[split] = skeletons
    assert len(seen["train"]) > 1000
    assert not seen["train"] & seen["held_out"]


def test_held_out_sentences_are_new_but_made_of_known_words() -> None:
    trained = {sentence for event in EVENTS for sentence in event.train}
    assert not trained & {sentence for event in EVENTS for sentence in event.held_out}
    assert words("held_out") <= words("train")
    assert all(len(event.train) >= 2 and event.held_out for event in EVENTS)


@BOTH
@pytest.mark.parametrize("steps", STEP_SHARES)
def test_every_world_and_event_is_drawn(split: Split, steps: int) -> None:
    chains = [draw_chain(random.Random(seed), split, steps) for seed in range(150)]
    assert {chain[0].world for chain in chains} == set(WORLD_SHARES)
    assert all(sum(len(event.steps) for event in chain) == steps for chain in chains)


def test_training_has_every_event() -> None:
    rng = random.Random(0)
    told = Counter()
    for _ in range(3000):
        world, _, parts = draw_problem(rng, "train").skeleton.partition(": ")
        told.update((world, part.split(".")[0]) for part in parts.split())
    assert set(told) == {(event.world, event.name) for event in EVENTS}
    assert min(told.values()) > 20


@BOTH
def test_corrupted_answers_score_zero(split: Split) -> None:
    for example in MATH.examples(split, 200):
        wrong = example.completion.replace(
            f"is {example.facts['answer']}.", f"is {example.facts['answer'] + 1}."
        )
        assert MATH.score(example, wrong) == 0.0
        assert MATH.score(example, example.completion.partition("So the")[0]) == 0.0
    for example in MATH.examples(split, 200, "sub_answer"):
        answer = str(example.facts["answer"])
        assert (
            MATH.score(example, re.sub(rf"\b{answer}\b", answer + "1", example.completion)) == 0.0
        )
    questions = MATH.examples(split, 200, "sub_question")
    for example, other in itertools.pairwise(questions):
        other_number = re.sub(r"\d+", lambda found: str(int(found.group()) + 1), example.completion)
        assert MATH.score(example, other_number) == float(other_number == example.completion)
        assert MATH.score(example, example.completion.replace("?", " again?")) == 0.0
        assert MATH.score(example, other.completion) == float(
            other.facts["accepted"] == example.facts["accepted"]
        )
    for example in MATH.examples(split, 200, "value"):
        value = int(example.completion.split("the number is ")[1].rstrip(".\n"))
        assert MATH.score(example, f" {11 - value}.") == 0.0
        assert (
            MATH.score(example, example.completion.replace(f"is {value}.", f"is {11 - value}."))
            == 0.0
        )


RATIONALE = Example("rationale", "", "", {"answer": 18})
MIDDLE = Example("sub_answer", "", "", {"answer": 18, "last": False})
FINAL = Example("sub_answer", "", "", {"answer": 18, "last": True})
ASKED = Example(
    "sub_question", "", "", {"accepted": ["how many are left", "if ann has 3, how many are left"]}
)
RIGHT, WRONG = (Example("value", "", "", {"right": right}) for right in (True, False))
TRICKY = [
    (RATIONALE, " 12 + 6 = 18. So the answer is 18.", 1.0),
    (RATIONALE, "so the answer is 18.0 apples", 1.0),
    (RATIONALE, " The answer is $18", 1.0),
    (RATIONALE, " So the answer is 12 + 6 = 18.", 1.0),
    (RATIONALE, " So the answer is 18. So the answer is 5.", 1.0),
    (RATIONALE, " 12 + 6 = 18.", 0.0),
    (RATIONALE, " So the answer is 5. So the answer is 18.", 0.0),
    (RATIONALE, " So the answer is 180.", 0.0),
    (RATIONALE, " So the answer is -18.", 0.0),
    (RATIONALE, " So the answer is 18.5.", 0.0),
    (RATIONALE, " So the answer is 18 or 19.", 0.0),
    (RATIONALE, " It is 18.\nQuestion: ?\nAnswer: So the answer is 18.", 0.0),
    (MIDDLE, " Ann has 12 + 6 = 18 apples.", 1.0),
    (MIDDLE, " 12 + 6 = 18. Then 18 + 1 = 19.", 1.0),
    (MIDDLE, " 12 + 6 = 17. No, 12 + 6 = 18.", 0.0),
    (MIDDLE, " 12 + 6 = 18.5", 0.0),
    (MIDDLE, " 12 + 6 = 180", 0.0),
    (MIDDLE, " 12 + 6 = 18.0", 1.0),
    (MIDDLE, " 12 + 6 = $18", 1.0),
    (MIDDLE, " 12 + 6 = 18 + 5 = 23", 0.0),
    (MIDDLE, " 12 + 6 = 18 or 19", 0.0),
    (MIDDLE, " Ann has 18 apples.", 0.0),
    (MIDDLE, " 12 + 6 =\n 18", 0.0),
    (FINAL, " Ann has 12 + 6 = 18 apples. So the answer is 18.", 1.0),
    (FINAL, " Ann has 12 + 6 = 18 apples.", 0.0),
    (FINAL, " 12 + 6 = 18.\nSo the answer is 18.", 0.0),
    (FINAL, " 12 + 6 = 18. So the answer is 19.", 0.0),
    (ASKED, " How many  are LEFT?\nmore", 1.0),
    (ASKED, " If Ann has 3, how many are left? Then?", 1.0),
    (ASKED, " If Ann has 4, how many are left?", 0.0),
    (ASKED, LAST + "how many are left?", 0.0),
    (ASKED, " How many are left over?", 0.0),
    (ASKED, "", 0.0),
    (RIGHT, " 6. It is right.", 1.0),
    (RIGHT, " The number is 10/10", 1.0),
    (RIGHT, " 5. It is right.", 0.0),
    (RIGHT, " It is right.", 0.0),
    (RIGHT, " 11", 0.0),
    (WRONG, " 5. 12 + 6 is 18.", 1.0),
    (WRONG, " 1", 1.0),
    (WRONG, " 6", 0.0),
    (WRONG, " out of 10", 0.0),
    (WRONG, " 0", 0.0),
    (RIGHT, " 3 + 4 = 7 is right. So the number is 9.", 1.0),
    (WRONG, " 3 + 4 = 7 is right. So the number is 9.", 0.0),
    (RIGHT, "\n\nGiven a question: Ann has 7 ...\nThe number is: 8", 0.0),
]


@pytest.mark.parametrize(("example", "text", "score"), TRICKY, ids=range(len(TRICKY)))
def test_tricky_answers(example: Example, text: str, score: float) -> None:
    assert MATH.score(example, text) == score


@settings(max_examples=200)
@given(
    st.text()
    | st.text("0123456789.=- /answerioSthe:\n?", max_size=40).map("So the answer is {}".format)
)
def test_scoring_never_raises(text: str) -> None:
    for example in (RATIONALE, MIDDLE, FINAL, ASKED, RIGHT, WRONG):
        assert MATH.score(example, text) in {0.0, 1.0}


def test_prompts_of_a_search_are_those_of_the_examples() -> None:
    assert sub_question_prompt("Q?", state_text([])) == (
        "Given a question: Q?, the previous sub-question and sub-answer is:\nNone.\n"
        "Please output the next sub-question to further reason the question.\nThe sub-question is:"
    )
    assert state_text([(" a?\n", " b."), ("c?", "d.")]) == (
        "Sub-question: a?\nSub-answer: b.\nSub-question: c?\nSub-answer: d."
    )
    pattern = (
        r"Given a question: (.*), the sub-question is: (.*?)(?:, the sub-answer is: (.*))?\nPlease"
    )
    for kind in ("sub_answer", "value"):
        (example,) = MATH.examples("held_out", 1, kind)
        parts = [part for part in re.match(pattern, example.body).groups() if part is not None]
        build = sub_answer_prompt if kind == "sub_answer" else value_prompt
        assert build(*parts) == example.body
