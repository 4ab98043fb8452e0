"""The commands of FastCoT: answers, bounds, comparisons, and what is wrong with a command line."""

import json

import pytest
from typer.testing import CliRunner

from leapdecode.cli.app import app
from leapdecode.model import embedded

SMALL = ("-m", embedded.folder() / "draft")


def command(*arguments):
    return CliRunner().invoke(app, ["fastcot", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("answer",), "a question or --example"),
        (("answer", "Who?", "--example", 1), "one of the two"),
        (("answer", "  "), "the question is empty"),
        (("answer", "--example", -1), "--example -1 must be from 0 to 9999"),
        (("answer", "Who?", "--task", "maths"), "did you mean 'math'"),
        (("answer", "Who?", "--task", "none.jsonl"), "cannot read none.jsonl"),
        (("answer", "Who?", "--shots", -1), "--shots -1"),
        (("answer", "Who?", "--window", "wide"), "--window 'wide' must be a whole number or auto"),
        (("answer", "Who?", "--window", 0), "--window 0 must be at least 1"),
        (("answer", "Who?", "--window", 4, "--method", "auto"), "--window is jacobi's"),
        (("answer", "Who?", "--method", "jacoby"), "did you mean 'jacobi'"),
        (("answer", "Who?", "-o", "windows=4"), "did you mean 'window'"),
        (("answer", "Who?", "--iterations", -2), "iterations=-2 must be at least 0"),
        (("answer", "Who?", "--unchanged", -1), "unchanged=-1"),
        (("answer", "Who?", "--confidence", 2), "confidence=2"),
        (("answer", "Who?", "--max-tokens", 0), "rationale_tokens=0"),
        (("answer", "Who?", "--stop", ""), "stop holds an empty string"),
        (("calibrate", "--max-tokens", 0), "rationale_tokens=0"),
        (("compare", "--max-tokens", 0), "rationale_tokens=0"),
        (("calibrate", "--max-loss", 3), "max_loss=3.0 must be a share"),
        (("calibrate", "--limit", 0), "--limit 0 must be at least 1"),
        (("calibrate", "--step", 0), "step=0 must be at least 1"),
        (("compare", "--methods", ""), "--methods is empty"),
        (("compare", "--methods", "cot,fastcott"), "did you mean 'fastcot'"),
        (("compare", "--methods", "cot:jacobi:windw=3"), "did you mean 'window'"),
        (("compare", "--iterations", "3,x"), "--iterations '3,x' must be whole numbers"),
        (("compare", "--iterations", "3", "--max-loss", 0.1), "choose one of them"),
        (("compare", "--unchanged", "0"), "--unchanged '0'"),
        (("compare", "--confidence", "1.5"), "confidence=1.5"),
        (("compare", "--calibration", 0), "give --iterations"),
        (("compare", "--limit", 0), "--limit 0"),
        (("compare", "--window", "-3"), "--window -3"),
        (("compare", "--preset", "fastcot-figure9"), "did you mean 'fastcot-figure"),
        (("compare", "--preset", "fastcot-figure6", "--resume"), "is asked anew"),
        (("compare", "--resume"), "--resume needs --output"),
    ],
)
def test_wrong_arguments_exit_with_2(arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command(*arguments)
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_answer_with_its_exact_and_approximate_tokens():
    given = ("answer", "--example", 0, "--iterations", 8, "--shots", 1)
    done = command(*given, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["schema"], found["iterations"], found["ended"]) == (1, 8, "iterations")
    assert found["prompt_token_ids"]
    lines = map(json.loads, embedded.examples("math.jsonl").read_text().splitlines())
    first = next(line for line in lines if "rationale" not in line)
    assert found["question"] in first["question"]
    assert found["score"] == (found["answer"] == first["answer"])
    assert found["exact"]["token_ids"]
    assert found["approximate"]["token_ids"]
    shown = command(*given)
    assert found["exact"]["text"].strip() in shown.stdout
    assert f"\u27e6~{found['approximate']['text'].strip()}~\u27e7" in shown.stdout
    assert f"answer: {found['answer']}" in shown.stdout


def test_a_rationale_ends_where_it_is_told_to():
    """Its length and its end are options of `calibrate`, too."""
    few = ("--shots", 1, "--max-tokens", 12, "--json", *SMALL)
    whole = json.loads(command("answer", "--example", 0, *few).stdout)
    assert len(whole["exact"]["token_ids"]) == 12
    word = whole["exact"]["text"].split()[2]
    cut = json.loads(command("answer", "--example", 0, "--stop", f" {word}", *few).stdout)
    assert cut["ended"] == "stop"
    assert len(cut["exact"]["token_ids"]) < 12
    bound = json.loads(command("calibrate", "--limit", 2, "--step", 16, *few).stdout)
    assert bound["curve"][-1]["exact"] == 12


def test_what_gives_no_answer_is_a_result_or_an_error_with_its_numbers():
    few = ("Tom has 3 pens and buys 2. How many has he?", "--shots", 0, *SMALL)
    done = command("answer", *few, "--iterations", 0, "--trigger", "Qwq zzz:", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["exact"]["token_ids"] == []
    assert found["iterations"] == 0
    assert found["score"] is None
    assert "answer" in found
    done = command("answer", *few, "--window", 4000)
    assert done.exit_code == 2
    assert "the window 4000" in done.stderr
    assert "--window" in done.stderr
    done = command("answer", *few, "--trigger", " ")
    assert done.exit_code == 2
    assert "has no words" in done.stderr


def test_a_bound():
    done = command("calibrate", "--limit", 2, "--step", 16, "--shots", 1, "--json", *SMALL)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["curve"][0]["iterations"] == 0
    assert found["questions"] == 2
    assert found["loss"] <= found["max_loss"]
