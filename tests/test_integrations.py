"""What other engines and harnesses are plugged into without them: one sentence each."""

import subprocess
import sys

CODE = """
import sys
sys.modules["lm_eval"] = None  # as if it were not installed
from leapdecode.lm_eval import main
main()
"""


def test_without_the_harness_its_command_line_says_how_to_install_it():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the harness is not installed here")
    assert "leapdecode[lm-eval]" in line
