"""`leapdecode cllm` as users type it."""

import json
import re

import pytest
from commands import errors, run
from typer.testing import CliRunner

from leapdecode.cli.app import app
from leapdecode.training.dataset import Trajectories


def typed(*arguments):
    return CliRunner().invoke(app, ["cllm", *map(str, arguments)])


@pytest.mark.parametrize("command", ["collect", "train"])
def test_help_shows_examples(command):
    shown = typed(command, "--help").stdout
    assert f"leapdecode cllm {command}" in shown.split("Examples:")[1]
    assert "--resume" in shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["collect", "--output", "x"], "name prompts: --task math,sql"),
        (["collect", "--task", "sql"], "--output DIR is missing"),
        (["collect", "--task", "sqll", "--output", "x"], "did you mean 'sql'?"),
        (
            ["collect", "--task", "sql", "--output", "x", "--block", "1"],
            "--block must be at least 2",
        ),
        (
            ["collect", "--task", "sql", "--output", "x", "--student-share", "0.5"],
            "--student-share 0.5 changes nothing without --teacher",
        ),
        (
            ["collect", "--task", "sql", "--output", "x", "--teacher", "y"],
            "leave out --task",
        ),
        (["collect", "--output", "x", "--teacher", "y"], "y holds no trajectories"),
        (["train", "--output", "x"], "--data DIR is missing"),
        (["train", "--data", "none", "--output", "x"], "none holds no trajectories"),
        (["train", "--data", "x", "--output", "x", "--loss", "both"], "--loss 'both'"),
        (["train", "--data", "x", "--output", "x", "--learning-rate", "2"], "--learning-rate 2.0"),
        (["train", "--data", "x", "--output", "x", "--epochs", "0"], "--epochs must be at least 1"),
        (
            ["train", "--data", "x", "--output", "x", "--loss", "local", "--augment", "0.1"],
            "--augment 0.1 changes nothing under --loss local",
        ),
        (
            ["train", "--data", "x", "--output", "x", "--loss", "local", "--fresh", "0.5"],
            "--fresh 0.5 changes nothing under --loss local",
        ),
    ],
)
def test_errors_are_one_line(arguments, told, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    done = typed(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert told in done.stderr
    assert len(errors(done)) == 1


def test_collect_then_train_gives_documents_and_a_model(tmp_path):
    data, model = tmp_path / "data", tmp_path / "model"
    common = ["--json", "--device", "cpu"]
    collected = typed(
        "collect", "--task", "sql,math", "--limit", 2, "--block", 8, "--max-tokens", 16,
        "--output", data, *common,
    )  # fmt: skip
    assert collected.exit_code == 0, collected.stderr
    counts = json.loads(collected.stdout)
    assert counts["prompts"] == 4
    assert counts["rows"] == counts["kept"] == len(Trajectories(data))
    trained = typed(
        "train", "--data", data, "--output", model, "--max-steps", 1, "--batch-size", 2, *common
    )
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(trained.stdout)["step"] == 1
    assert (model / "model.safetensors").exists()
    assert json.loads((model / "config.json").read_text())["jacobi_block"] == 8
    told = json.loads((model / "provenance.json").read_text())
    assert {"versions", "revision", "argv", "data", "device"} <= set(told)
    on_policy = typed(
        "collect", "-m", model, "--teacher", data, "--student-share", 0.5, "--max-tokens", 16,
        "--output", tmp_path / "on-policy", *common,
    )  # fmt: skip
    assert on_policy.exit_code == 0, on_policy.stderr
    assert json.loads(on_policy.stdout)["prompts"] == counts["rows"]
    again = typed(
        "train", "-m", model, "--data", tmp_path / "on-policy", "--output", tmp_path / "second",
        "--max-steps", 1, "--batch-size", 2, *common,
    )  # fmt: skip
    assert again.exit_code == 0, again.stderr
    collected = json.loads(again.stdout)["collected"]
    assert collected["block"] == 8  # the teacher's
    assert collected["teacher"] == Trajectories(data).fingerprint


def test_stderr_in_a_file_gets_lines_of_progress(tmp_path):
    """Of a process of its own, as under nohup; a line for every update instead of one in 30 s."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from leapdecode.cli.app import main\n"
        "from leapdecode.model import waits\n"
        "waits.LINE_SECONDS = 0\n"
        "sys.argv[0] = 'leapdecode'\n"
        "main()\n"
    )
    data = tmp_path / "data"
    collected = run(
        "cllm", "collect", "--task", "math", "--limit", 3, "--shard", 2, "--block", 8,
        "--max-tokens", 8, "--output", data, "--device", "cpu", program=script, text=True,
    )  # fmt: skip
    assert collected.returncode == 0, collected.stderr
    assert "collecting, decoding text 2 of the shard's 2: 0 of 3\n" in collected.stderr
    assert re.search(r"^collecting, .*: 2 of 3, about \d+ s left$", collected.stderr, re.MULTILINE)
    assert "collecting, trajectories of text 1 of the shard's 1: 3 of 3\n" in collected.stderr
    trained = run(
        "cllm", "train", "--data", data, "--output", tmp_path / "model", "--max-steps", 2,
        "--batch-size", 1, "--device", "cpu", program=script, text=True,
    )  # fmt: skip
    assert trained.returncode == 0, trained.stderr
    assert re.search(r"^consistency [\d.]+, AR [\d.]+: 2 of 2$", trained.stderr, re.MULTILINE)
