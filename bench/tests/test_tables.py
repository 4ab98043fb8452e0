"""The tables of results in the documentation."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_of_results_are_what_the_folders_give():
    check = [sys.executable, ROOT / "bench" / "scripts" / "tables.py", "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
