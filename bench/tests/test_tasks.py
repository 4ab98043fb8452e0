"""What every task has in common: names, kinds, prompts, exact scores."""

import hashlib
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import leapdecode_bench.tasks
from leapdecode.errors import UnknownName
from leapdecode.model.embedded import examples
from leapdecode.plugins import Registry
from leapdecode.reasoning.fastcot.questions import ShippedSource
from leapdecode.reasoning.tasks.math import MathTree
from leapdecode_bench.reasoning.questions import find as find_questions
from leapdecode_bench.tasks.base import Task
from leapdecode_bench.tasks.registry import find, names

KINDS = [(name, kind) for name in names() for kind in find(name).kinds]
# The embedded pair was trained on these texts, and what was measured was measured on them.
DIGESTS = {
    "blocksworld/action": "a5a90e2aeea910bd",
    "blocksworld/plan": "7acb858fbebad6ef",
    "blocksworld/value": "8cfd8828630b50b2",
    "choice/multiple": "245e3c67930b701a",
    "choice/yes_no": "911e61daf36f8109",
    "code/function": "c7ecb7e532e08766",
    "code/source": "c06be56f6cd57818",
    "math/rationale": "4f57f046366c6812",
    "math/sub_question": "075182fcd2c7b4b4",
    "math/sub_answer": "69d157530152a1db",
    "math/value": "883ae120cdc877a1",
    "passage/passage": "565f07c916bbbf09",
    "passage/value": "65594f746b4950ec",
    "sql/query": "d886a7cd1ceaa668",
}


def test_the_registry_finds_the_tasks():
    assert names() == ["blocksworld", "choice", "code", "math", "passage", "sql"]


@pytest.mark.parametrize("path", ["counting.py", "counting/__init__.py"])
def test_a_task_is_a_file_or_a_folder(path, tmp_path, monkeypatch):
    """The documents' example, in either place."""
    docs = (Path(__file__).parents[2] / "docs/adding_a_task.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", docs, flags=re.DOTALL)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(code)
    monkeypatch.setattr(
        leapdecode_bench.tasks, "__path__", [*leapdecode_bench.tasks.__path__, str(tmp_path)]
    )
    task = Registry("leapdecode_bench.tasks", Task, "task").instance("counting")
    del sys.modules["leapdecode_bench.tasks.counting"]
    (example,) = task.examples("held_out", 1)
    assert task.score(example, example.completion) == 1.0
    assert task.score(example, " 1 2 3\n") == 0.0


def test_no_words_are_read_before_they_are_needed():
    code = (
        "from leapdecode_bench.tasks.registry import find, names\n"
        "from leapdecode_bench.tasks.data import load_text\n"
        "print(len(names()), load_text.cache_info().misses)\n"
        "find('passage').prompts(1)\n"
        "print(load_text.cache_info().misses)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["6", "0", "1"]


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_examples_are_those_of_the_embedded_pair(name, kind):
    found = [e for split in ("train", "held_out") for e in find(name).examples(split, 60, kind)]
    text = "".join(example.body + example.completion for example in found)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == DIGESTS[f"{name}/{kind}"]


def test_unknown_names_get_suggestions():
    with pytest.raises(UnknownName, match="'math'"):
        find("maths")
    with pytest.raises(UnknownName, match="'rationale'"):
        find("math").examples("train", 1, "rational")


@pytest.mark.parametrize(("name", "kind"), KINDS)
def test_examples_are_fixed_by_seed_and_number(name, kind):
    task = find(name)
    few, many = (
        task.examples("held_out", 3, kind, seed=5),
        task.examples("held_out", 6, kind, seed=5),
    )
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
    assert all(
        task.score(example, text) == 0.0
        for example in examples
        for text in ("", "\n", "I do not know.")
    )
    others = [
        task.score(a, b.completion)
        for a in examples
        for b in examples
        if a.completion != b.completion
    ]
    assert sum(others) / len(others) < 0.7  # an evaluation has few different answers


def test_the_demo_pairs_examples_are_the_first_problems():
    """A number names the same problem with this package and without it."""
    tool = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "demo_examples.py"))
    tour = [json.loads(line) for line in examples("tour.jsonl").read_text().splitlines()]
    assert tour == tool["tour"]()
    trees = [json.loads(line) for line in examples("trees.jsonl").read_text().splitlines()]
    drawn = MathTree().questions(len(trees))
    assert [(problem["text"], problem["answer"]) for problem in trees] == [
        (question.text, question.facts["answer"]) for question in drawn
    ]
    shipped = ShippedSource()
    task = find_questions("math")
    for shots in (0, 4):
        pairs = zip(shipped.questions(20, 0, shots), task.questions(20, 0, shots), strict=True)
        for question, wanted in pairs:
            assert (question.question, question.prompt) == (wanted.question, wanted.prompt)
            for answer in ("18", " 50.", "none"):
                assert question.score(answer) == wanted.score(answer)
    assert shipped.ask("How many?", 4) == task.ask("How many?", 4)
