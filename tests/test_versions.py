"""`tools/versions.py`: the tests on several versions of transformers, here the installed one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).parent.parent
THREE = """
import pytest

def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip(reason="not here")
def test_is_skipped(): pass
"""


def versions(file, *arguments):
    """The tool's run of one test file, with further arguments for pytest."""
    version = ".".join(transformers.__version__.split(".")[:2])
    options = ["--versions", version, "--out", file.parent / "out"]
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "versions.py", file, *options, "--", *arguments],
        text=True, capture_output=True, check=False, env={**os.environ, "COLUMNS": "100"},
    )  # fmt: skip


@pytest.fixture
def three(tmp_path):
    file = tmp_path / "test_three.py"
    file.write_text(THREE)
    return file


@pytest.mark.slow
def test_a_result_is_in_the_table_and_kept_until_something_changes(three):
    done = versions(three)
    assert done.returncode == 1, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("│"))
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells[:5] == [transformers.__version__, "1", "1", "0", "1"]
    assert f"{transformers.__version__} test_three.py::test_fails" in done.stdout
    (log,) = three.parent.glob("out/results/*/test_three.log")
    log.write_text("kept")
    versions(three)
    assert log.read_text() == "kept"
    done = versions(three, "-k", "passes")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in log.read_text()
    three.write_text(THREE.replace("False", "True"))
    assert versions(three).returncode == 0


@pytest.mark.slow
def test_what_ends_without_a_report_is_an_error(three):
    done = versions(three, "--no-such-option")
    assert done.returncode == 1
    assert "pytest ended with 4" in done.stdout
