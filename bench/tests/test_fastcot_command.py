"""`leapdecode fastcot compare`, as a command."""

import json

from typer.testing import CliRunner

from leapdecode.cli.app import app
from leapdecode.model import embedded
from leapdecode_bench.measure.fastcot.records import store

SMALL = ("-m", embedded.folder() / "draft")


def command(*arguments):
    return CliRunner().invoke(app, ["fastcot", *map(str, arguments)])


def test_the_command_compares_resumes_and_keeps_old_results(tmp_path):
    few = (
        "compare", "--limit", 2, "--calibration", 2, "--step", 16, "--shots", 1, "--batch-size", 2,
        "--methods", "cot,fastcot,fastcot-early", "--max-tokens", 24, "--stop", "=",
        "--output", tmp_path, *SMALL,
    )  # fmt: skip
    done = command(*few, "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["schema"], report["task"]) == (1, "math")
    assert (report["run"]["max_tokens"], report["run"]["stop"]) == (24, ["="])
    assert all(
        len(reply.exact) <= 24 for record in store(tmp_path).read() for reply in record.replies
    )
    assert [row["method"] for row in report["rows"]] == ["cot", "fastcot", "fastcot-early"]
    bound = report["calibration"]["iterations"]
    assert list(report["calibrations"]) == ["jacobi"]
    assert report["rows"][1]["bound"] == bound
    assert report["calibration"]["curve"][-1]["ended"] == 1
    assert command(*few).exit_code == 2  # not empty
    lines = (tmp_path / "records.jsonl").read_text().splitlines()
    (tmp_path / "records.jsonl").write_text(lines[0] + "\n" + lines[1][:50])  # killed half-way
    assert command(*few, "--resume").exit_code == 0
    assert (tmp_path / "records.jsonl").read_text().splitlines()[0] == lines[0]
    assert len(store(tmp_path).read()) == 3
    other = command(*few, "--resume", "--seed", 5)
    assert other.exit_code == 2
    assert "another run (other seed)" in other.stderr


def test_a_file_with_too_few_questions_says_how_many_would_calibrate(tmp_path):
    questions = tmp_path / "few.jsonl"
    questions.write_text(
        "".join(f'{{"question": "Is {number} even?", "answer": "no"}}\n' for number in range(6))
    )
    comparison = (
        "compare",
        "--task",
        questions,
        "--shots",
        0,
        "--methods",
        "cot",
        "--output",
        tmp_path / "o",
    )
    done = command(*comparison, "--limit", 4, "--calibration", 3, *SMALL)
    assert done.exit_code == 2
    assert "not 7; lower --limit, or --calibration: 3 would calibrate" in done.stderr
    assert (
        "--calibration" not in command(*comparison, "--limit", 7, "--calibration", 0, *SMALL).stderr
    )


def test_a_study(tmp_path):
    done = command(
        "compare", "--preset", "fastcot-figure5", "--limit", 2, "--seeds", 2, "--shots", 1,
        "--output", tmp_path, "--json", *SMALL,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert {row["left"] for row in report["rows"]} >= {0.0, 0.5, 1.0}
    assert "<svg" in (tmp_path / "report.html").read_text()
