"""What every task has in common: names, kinds, prompts, exact scores."""

import pytest

from leapdecode.errors import UnknownName
from leapdecode.tasks.registry import find, names

KINDS = [(name, kind) for name in names() for kind in find(name).kinds]


def test_the_registry_finds_the_tasks():
    assert names() == ["blocksworld", "choice", "code", "math", "passage", "sql"]


def test_unknown_names_get_suggestions():
    with pytest.raises(UnknownName, match="'math'"):
        find("maths")
    with pytest.raises(UnknownName, match="'rationale'"):
        find("math").examples("train", 1, "rational")


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_examples_are_fixed_by_seed_and_number(name, kind):
    task = find(name)
    few, many = task.examples("held_out", 3, kind, seed=5), task.examples("held_out", 6, kind, seed=5)
    assert many[:3] == few
    assert task.examples("held_out", 3, kind, seed=6) != few
    assert task.examples("train", 3, kind, seed=5) != few


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_a_prompt_is_header_demonstrations_body(name, kind):
    task = find(name)
    first, second = task.examples("train", 2, kind)
    prompt = task.prompt(second, [first])
    assert prompt == task.header(kind) + first.body + first.completion + "\n" + second.body
    assert not prompt.endswith((" ", "\n"))
    assert first.completion.endswith("\n")


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_the_scorer_tells_right_from_empty_and_from_others(name, kind):
    task = find(name)
    examples = task.examples("held_out", 12, kind)
    assert all(task.score(example, example.completion) == 1.0 for example in examples)
    assert all(task.score(example, text) == 0.0 for example in examples for text in ("", "\n", "I do not know."))
    others = [task.score(a, b.completion) for a in examples for b in examples if a.completion != b.completion]
    assert sum(others) / len(others) < 0.7  # an evaluation has few different answers
