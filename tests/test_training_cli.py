"""`leapdecode cllm` as users type it."""

import json

import pytest
from commands import errors
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
