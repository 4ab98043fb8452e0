"""The passage task: end sentences are kept exactly or not at all, scores follow their rule, the
splits differ.
"""

import random
import re

import pytest

from leapdecode_bench.tasks.base import Example
from leapdecode_bench.tasks.passage import (
    Passage,
    paragraphs_of,
    passage_prompt,
    sentences_kept,
    value_prompt,
)
from leapdecode_bench.tasks.passage.writing import words

SUBJECTS = words().subjects
COMMON_ENDS, RESERVED_ENDS = words().ends["common"], words().ends["reserved"]
TASK = Passage()
KINDS = [(kind, split) for kind in TASK.kinds for split in ("train", "held_out")]
ENDS = ["The dog hid the key.", "The cat sold the pie.", "A cow saw the dog.", "The end was near."]
EXAMPLE = Example("passage", passage_prompt(ENDS), "", {"ends": ENDS})
GOOD = (
    "\nPlan:\n1. a dog\nPassage:\n" + "\n\n".join(f"Once it was so. {end}" for end in ENDS) + "\n"
)


@pytest.mark.parametrize(("kind", "split"), KINDS)
def test_references_are_right_short_and_reproducible(kind, split):
    examples = TASK.examples(split, 200, kind)
    assert examples == Passage().examples(split, 200, kind)
    assert len({example.body for example in examples}) == 200
    for example in examples:
        assert TASK.score(example, example.completion) == 1
        assert TASK.score(example, example.completion + example.body) == 1
        assert TASK.score(example, example.completion + "\n" + example.body) == 1
        assert example.body == example.body.rstrip()
        assert example.completion.endswith("\n")
        assert len((example.body + example.completion).split()) < 230


def test_the_splits_share_no_skeleton():
    train, held = (
        {
            name
            for kind in TASK.kinds
            for example in TASK.examples(split, 400, kind)
            for name in example.facts["skeletons"]
        }
        for split in ("train", "held_out")
    )
    assert not train & held
    assert {name.split("/")[0] for name in train} == set(COMMON_ENDS)
    assert {name.split("/")[0] for name in held} == set(COMMON_ENDS + RESERVED_ENDS)
    assert not {name.split("/", 1)[1] for name in train} >= {name.split("/", 1)[1] for name in held}


def test_held_out_passages_use_known_words():
    train, held = (
        {
            word
            for kind in TASK.kinds
            for e in TASK.examples(split, 500, kind)
            for word in re.findall(r"\w+", e.body)
        }
        for split in ("train", "held_out")
    )
    assert held <= train


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_the_plan_does_not_copy_and_each_paragraph_keeps_its_subject(split):
    for example in TASK.examples(split, 200):
        plan, passage = example.completion.split("Passage:")
        paragraphs = paragraphs_of("Passage:" + passage)
        assert paragraphs is not None
        assert len(paragraphs) == 4
        for paragraph, end in zip(paragraphs, example.facts["ends"], strict=True):
            lead = paragraph.removesuffix(end)
            assert 1 <= lead.count(".") <= 2
            assert any(
                name in lead and name in end for names in SUBJECTS.values() for name in names
            )
            grams = [
                " ".join(end.split()[place : place + 4]) for place in range(len(end.split()) - 3)
            ]
            assert not any(gram in plan or gram in lead for gram in grams)
        assert len(set(example.facts["ends"])) == 4


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.strip(),
        GOOD + "\nAnalyze the passage: more",
        GOOD + "Write a coherent passage of 4 short paragraphs.\n\nPassage:\n\nx",
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n\n", "\n \n"),
        GOOD.replace("Once it was so.", 'They said, "It was so!"'),
        GOOD.replace("Once it was so.", "Once it was so\u2026"),
        "Passage:\n" + "\n\n".join(ENDS),
    ],
)
def test_right_passages(text):
    assert TASK.score(EXAMPLE, text) == 1


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", 0),
        (GOOD.replace("Passage:", ""), 0),
        (GOOD.replace("\n\n", "\n"), 0),
        (GOOD + "\nA fifth paragraph.", 0),
        (GOOD.rstrip() + "\nAnd a line that follows.", 0.75),
        (GOOD.replace("\n\n", "\n", 1), 0),
        (GOOD.replace("Once it was so.", "Once it was so, when"), 0),
        ("Passage:\n" + "\n\n".join(ENDS[:3]), 0),
        ("Passage:\n" + "\n\n".join(ENDS[::-1]), 0),
        (GOOD.replace("hid the key.", "hid the key"), 0.75),
        (GOOD.replace("hid the key.", "hid the key. So it was."), 0.75),
        (GOOD.replace("The dog hid", "Then The dog hid"), 0.75),
        (GOOD.replace("The dog hid", "the dog hid"), 0.75),
        (GOOD.replace("sold", "bought").replace("saw", "met"), 0.5),
    ],
)
def test_near_misses(text, kept):
    assert TASK.score(EXAMPLE, text) == 0
    assert sentences_kept(EXAMPLE, text) == kept


@pytest.mark.parametrize("split", ["train", "held_out"])
def test_a_damaged_reference_does_not_score(split):
    rng = random.Random(split)
    for example in TASK.examples(split, 100):
        end = rng.choice(example.facts["ends"])
        for damaged in (
            end.removesuffix("."),
            end.lower(),
            " ".join(end.split()[1:]),
            end.replace(" the ", " a ", 1),
        ):
            assert (
                damaged == end or TASK.score(example, example.completion.replace(end, damaged)) == 0
            )


def test_scores_follow_the_rule():
    examples = TASK.examples("train", 400, "value")
    assert {example.facts["score"] for example in examples} == {2, 4, 6, 8, 10}
    for example in examples:
        passage = (
            "Passage:\n" + example.body.split("passage: ")[1].split(", then at the last line")[0]
        )
        kept = 0
        for paragraph, end in zip(paragraphs_of(passage) or [], example.facts["ends"], strict=True):
            lead = set(re.findall(r"\w+", paragraph.removesuffix(end)))
            kept += any(
                {name} <= lead & set(re.findall(r"\w+", end))
                for names in SUBJECTS.values()
                for name in names
            )
        assert example.facts["score"] == 2 + 2 * kept
        assert example.facts["right"] == (kept == 4)
        assert value_prompt(passage) == example.body


def test_a_value_is_right_or_wrong():
    for example in TASK.examples("held_out", 100, "value"):
        score = example.facts["score"]
        for value in range(1, 11):
            right = float(value == score)
            assert (
                TASK.score(example, f" The first drifts.\nThus the coherency score is {value}.\n")
                == right
            )
            assert (
                TASK.score(example, f" {value} paragraphs.\nThus the coherency score is {score}")
                == 1
            )
            assert (
                TASK.score(
                    example,
                    f" {value}/10\nAnalyze the passage: Thus the coherency score is {score}",
                )
                == right
            )
            changed = example.completion.replace(f"score is {score}.", f"score is {value}.")
            assert TASK.score(example, changed) == right
        assert TASK.score(example, example.completion.split("\n")[0]) == 0


def test_prompts_for_a_search_are_those_of_training():
    example = TASK.examples("train", 1)[0]
    assert passage_prompt(example.facts["ends"]) == example.body == TASK.prompt(example)
    prompt = value_prompt(example.completion)
    assert prompt.startswith("Analyze the passage: ")
    assert "Plan:" not in prompt
    assert value_prompt(" One line. \n") == value_prompt("One line.")


@pytest.mark.parametrize("kind", TASK.kinds)
def test_no_text_makes_the_scorer_fail(kind):
    rng, examples = random.Random(kind), TASK.examples("held_out", 20, kind)
    pieces = [
        "Passage:",
        "\n",
        "\n\n",
        "Plan:",
        "Thus the coherency score is ",
        "7",
        "11",
        "/10",
        ".",
        " ",
        "The end.",
    ]
    pieces += ["Write a coherent passage of", "\x00", "\u2028", "9" * 60, "-", "²", "\ud800"]
    for _ in range(300):
        text = "".join(rng.choices(pieces, k=rng.randrange(25)))
        assert TASK.score(rng.choice(examples), text) in (0.0, 1.0)
