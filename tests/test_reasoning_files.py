"""A user's task in a TOML file."""

from pathlib import Path

import pytest

from leapdecode import SamplingParams
from leapdecode.errors import TaskError
from leapdecode.reasoning import Executor, Generated, Question, State, solve
from leapdecode.reasoning.tasks import find

EXAMPLE = Path(__file__).parent.parent / "examples" / "countdown.toml"
SMALL = """
name = "sums"
depth = 2

[thought]
prompt = "{question} {state} {number}"
stop = ["\\n"]
final = "done"

[value]
prompt = "{question}: {thought} after {state} {{0}}"

[final]
prompt = "{question} {state}"
answer = "answer is ([0-9]+)"

[[question]]
text = "1 + 1"
expected = "2"
"""


def written(folder, text):
    path = folder / "task.toml"
    path.write_text(text)
    return str(path)


def ended(stages, text):
    next(stages)
    with pytest.raises(StopIteration) as caught:
        stages.send(Generated(text, "stop", 1))
    return caught.value.value


def test_the_example_is_a_task():
    task = find(str(EXAMPLE))
    scored, unscored = task.questions(2)
    assert unscored.facts is None
    state = State(scored, ("8 - 4 = 4 (left: 4 6)",))
    assert "Step 1: 8 - 4 = 4 (left: 4 6)\n" in next(task.think(state)).prompt
    assert next(task.think(state)).prompt.endswith("Step 2:")
    assert "(nothing yet)" in task.evaluation(state).prompt
    assert not task.is_final(state)
    assert task.is_final(state.after("4 * 6 = 24 (left: 24)"))
    answer = ended(task.finish(state), " (8 - 4) * 6.")
    assert answer == "(8 - 4) * 6"
    assert task.score(scored.facts, answer) == 1
    assert task.score(scored.facts, "8 * 6") == 0
    values = {" Sure, by 4 * 6": 10, "likely": 6, "**Impossible**.": 1, "surely": None}
    values |= {"sure or likely": None, "It is sure": None, "": None, "10": None}
    assert {text: task.parse(text) for text in values} == values


def test_without_labels_values_are_scores(tmp_path):
    task = find(written(tmp_path, SMALL))
    assert (task.parse("8 out of 10"), task.parse("7 or 8")) == (8, None)
    state = State(Question("1 + 1"), ("one",))
    assert task.evaluation(state).prompt == "1 + 1: one after  {0}"
    assert task.evaluation(state).max_tokens == 128
    assert ended(task.finish(state), "The answer is 2, or 3") == "2"
    assert ended(task.finish(state), "two") == ""


def test_a_tree_of_a_file(tmp_path, light):
    path = written(tmp_path, SMALL)
    driver = Executor(light, SamplingParams(temperature=1.0))
    found = solve(driver, path, find(path).questions(1)[0], thoughts=2)
    assert found.task == "sums"
    assert found.counts.thoughts == 2
    assert found.score == find(path).score(find(path).questions(1)[0].facts, found.answer)


BAD = [
    ("depth = 2", "", "depth is missing"),
    ("depth = 2", "depth = 0", "depth must be a whole number of at least 1, not 0"),
    ("depth = 2", "depth = true", "depth must be a whole number"),
    ('name = "sums"', 'name = ""', "name must be a text"),
    ("{question} {state} {number}", "{questoin}", "thought.prompt .*did you mean 'question'"),
    ("{question} {state} {number}", "{thought}", "thought.prompt has no field {thought}"),
    ("{question} {state} {number}", "{}", "thought.prompt has no field"),
    ("{question} {state} {number}", "{question.x}", "has no field {question.x}"),
    ("{question} {state} {number}", "{number:3}", "without a format"),
    ("{question} {state} {number}", "{question", "brace"),
    ('stop = ["\\n"]', 'stop = "x"', "thought.stop must be a list"),
    ('stop = ["\\n"]', 'stop = [""]', "thought.stop must be a list"),
    ('stop = ["\\n"]', "stops = []", "thought.stops is unknown; did you mean 'stop'"),
    ('final = "done"', 'final = "("', "thought.final is no regular expression"),
    ("[value]", "[valeu]", "value is missing"),
    ("[final]", "[[final]]", r"final must be a table: \[final\]"),
    ('expected = "2"', "expected = 2", "question 1.expected must be a text"),
    ('expected = "2"', 'expcted = "2"', "question 1.expcted is unknown"),
    ("[[question]]", "[question]", r"question must be a list of tables"),
    ("depth = 2", "depth = ", "is not TOML"),
    ("[value]", "[value]\nlabels = { good = 11 }", "value.labels must be a table"),
    ("[value]", "[value]\nmax_tokens = 1.5", "value.max_tokens must be a whole number"),
    ('name = "sums"', 'name = "sums"\nstate = "{thoughts}"', "state has no field {thoughts}"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=range(len(BAD)))
def test_errors_name_the_file_and_the_field(tmp_path, old, new, message):
    assert old in SMALL
    path = written(tmp_path, SMALL.replace(old, new))
    with pytest.raises(TaskError, match=message) as caught:
        find(path)
    assert path in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(TaskError, match=r"cannot read .*none\.toml: No such file"):
        find(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TaskError, match=r"binary\.toml is not TOML"):
        find(str(tmp_path / "binary.toml"))


def test_there_are_as_many_questions_as_the_file_has(tmp_path):
    task = find(written(tmp_path, SMALL))
    with pytest.raises(TaskError, match="has 1 questions, not 2"):
        task.questions(2)
