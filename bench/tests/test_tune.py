"""Tuning: option after option, by paired time, down to a command that works."""

import json
import shlex

import pytest
from commands import call, errors

from leapdecode import LLM, SamplingParams
from leapdecode.errors import OptionError
from leapdecode.methods import find, make, names
from leapdecode_bench.measure import tune
from leapdecode_bench.measure.records import Record
from leapdecode_bench.measure.tune import Search, trial, values_to_try
from leapdecode_bench.measure.workloads import build

SHORT = SamplingParams(max_tokens=12)


def test_every_value_to_try_is_a_value_of_its_option():
    for name in names():
        for option in find(name).options():
            for value in option.metadata["search"]:
                make(name, {option.name: value})
                assert isinstance(value, type(option.default))


def test_algorithm_1_comes_first_for_ouroboros():
    assert list(values_to_try("ouroboros", {}))[:3] == ["gamma", "window", "phrase_length"]
    assert "suffixes" not in values_to_try("ouroboros", {})  # the paper keeps K
    assert list(values_to_try("lookahead", {"window": 3, "guesses": 2})) == ["ngram"]
    with pytest.raises(OptionError, match="no option left"):
        values_to_try("autoregressive", {})


def test_the_fastest_value_of_each_option_is_kept_for_the_next(llm, monkeypatch):
    monkeypatch.setattr(
        tune,
        "speed",
        lambda own, plain: {"speedup": prefers(own[0].contender), "speedup_interval": [1, 2]},
    )

    def prefers(label):
        return 2.0 * ("num_tokens=5" in label) + ("max_match=2" in label) + 0.1

    search = Search(llm, "prompt_lookup", build("math", llm, 1, 0, SHORT), SHORT)
    assert sum(1 for _ in search.run()) == search.total == 3
    assert search.best == {"num_tokens": 5, "max_match": 2, "min_match": 1}
    assert [trial.option for trial in search.trials] == ["num_tokens"] * 4 + ["max_match"] * 3 + [
        "min_match"
    ] * 2
    assert all(trial.unexplained == 0 for trial in search.trials)


def test_prompts_of_two_tasks_are_units_of_their_own():
    def records(contender, faster):
        speeds = {("one", 0): 1.0, ("one", 1): 2.0, ("two", 0): 3.0, ("two", 1): 8.0}
        return [
            Record(task, contender, unit, 0, 1, 3, 10, 10 / (at if faster else 1.0))
            for (task, unit), at in speeds.items()
        ]

    own, plain = records("own", faster=True), records("autoregressive", faster=False)
    found = trial("window", 3, own, plain, plain)
    assert found.speedup_interval == [1.0, 8.0]
    assert found.speedup == found.gain == 2.5
    assert trial("window", 3, own, plain, own).gain == 1.0


def test_the_gain_decides_where_tasks_differ():
    """Over plain decoding the median is one task's or the other's; value 2 is faster on two of
    three.
    """
    plain = [Record("a", "autoregressive", unit, 0, 1, 3, 10, 12.0) for unit in range(3)]
    seconds = {1: (4.0, 6.0, 12.0), 2: (3.9, 6.1, 6.2)}
    groups = {
        value: [Record("a", str(value), unit, 0, 1, 3, 10, time) for unit, time in enumerate(times)]
        for value, times in seconds.items()
    }
    found = {value: trial("gamma", value, own, plain, groups[1]) for value, own in groups.items()}
    assert found[1].speedup > found[2].speedup
    assert found[1].gain == 1.0 < found[2].gain


def test_values_that_do_not_go_together_are_left_out(llm):
    search = Search(
        llm,
        "prompt_lookup",
        build("sql", llm, 1, 0, SHORT),
        SHORT,
        {"min_match": 3, "num_tokens": 3},
    )
    list(search.run())
    assert [one.value for one in search.trials] == [3, 5]  # of max_match; 2 is below min_match


def command(*arguments):
    return call("tune", *arguments, text=True)


def test_the_command_it_prints_works():
    done = command(
        "--method",
        "jacobi",
        "-o",
        "refill=prompt",
        "--tasks",
        "sql",
        "--limit",
        "2",
        "--max-tokens",
        "8",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["options"] == {"refill": "prompt", "window": report["options"]["window"]}
    words = shlex.split(report["command"].replace("PROMPT", "'SELECT a'"))
    assert words[0] == "leapdecode"
    again = call(*words[1:], "--max-tokens", "4", text=True)
    assert again.returncode == 0, again.stderr
    shown = command("--method", "jacobi", "--tasks", "sql", "--limit", "1", "--max-tokens", "4")
    assert "window" in shown.stdout
    assert "leapdecode generate" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--method", "lookahed"), "lookahead"),
        (("--method", "autoregressive"), "no option left"),
        (("--method", "jacobi", "-o", "windw=3"), "window"),
        (("--tasks", "maths"), "math"),
        (("--budget", "0"), "budget"),
    ],
)
def test_bad_input_is_one_line(arguments, said):
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(errors(done)) == 1


def test_a_draft_is_asked_for(llm):
    done = LLM(llm.model, llm.tokenizer)
    assert done.draft is None
    search = Search(done, "draft_model", build("sql", done, 1, 0, SHORT), SHORT)
    with pytest.raises(OptionError, match="draft"):
        list(search.run())
