"""Python: small documented functions, scored by running them, and standard-library source to continue."""

import functools
import hashlib
import random
import sysconfig
from pathlib import Path
from typing import Any, ClassVar

from leapdecode.tasks import sandbox
from leapdecode.tasks.base import Example, Split, Task
from leapdecode.tasks.code_families import write_family
from leapdecode.tasks.code_write import write

SKIPPED = {
    "test",
    "tests",
    "idle_test",
    "lib2to3",
    "idlelib",
    "turtledemo",
    "pydoc_data",
    "site-packages",
    "__pycache__",
}
HELD_OUT_SHARE = 8  # one file in eight
SHOWN_LINES, NEXT_LINES = 24, 20
FAMILY_SHARE = 0.35


class Code(Task):
    """Functions to write from their documentation, and source files of Python itself to continue."""

    name: ClassVar[str] = "code"
    summary: ClassVar[str] = "write a documented Python function (run against tests), or continue library source"
    kinds: ClassVar[tuple[str, ...]] = ("function", "source")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        if self.check_kind(kind) == "source":
            shown, following = passage(rng, split == "held_out", SHOWN_LINES, NEXT_LINES)
            return Example("source", shown, following)
        written = (write_family if rng.random() < FAMILY_SHARE else write)(rng, split == "held_out")
        facts = {
            "function": written.name,
            "tests": written.tests,
            "skeleton": written.skeleton,
            "wording": written.wording,
        }
        return Example("function", written.head, written.body, facts)

    def score(self, example: Example, text: str) -> float | None:
        """1.0 if the function passes every test, else 0.0; source has no checker. Runs `text` in the sandbox."""
        if example.kind != "function":
            return None
        return float(passes(example.facts, example.body + function_body(text)))


def function_body(text: str) -> str:
    """A completion up to the first line outside the function: one that is neither empty nor indented.

    What stands before the first line feed goes on with the documentation's last line, so it always belongs to it.
    """
    first, *lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.strip() and not line.startswith((" ", "\t")):
            lines = lines[:place]
            break
    return "\n".join([first, *lines]) + "\n"


def passes(facts: dict[str, Any], source: str) -> bool:
    """Whether the function in `source` returns what the tests want; compared here, out of the program's reach."""
    found = sandbox.call(source, facts["function"], [arguments for arguments, _ in facts["tests"]])
    return found == [expected for _, expected in facts["tests"]]


def is_held_out(name: str) -> bool:
    """Whether a file, named relative to the library's root, belongs to the held-out split."""
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_SHARE == 0


def library_files(held_out: bool) -> list[Path]:
    """The running Python's standard-library modules of one split, sorted; tests and data modules left out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root)
        if not SKIPPED.intersection(parts.parts) and is_held_out(parts.as_posix()) == held_out:
            found.append(path)
    return found


@functools.cache
def library_lines(held_out: bool) -> list[tuple[list[str], list[int]]]:
    """Of each file of a split: its lines, and where a passage can start (`def` or `class`, enough lines after it)."""
    found = []
    for path in library_files(held_out):
        lines = path.read_text(encoding="utf-8", errors="ignore").split("\n")
        lasts = len(lines) - SHOWN_LINES - NEXT_LINES
        starts = [
            place for place, line in enumerate(lines[: max(lasts, 0)]) if line.lstrip().startswith(("def ", "class "))
        ]
        if starts:
            found.append((lines, starts))
    return found


def passage(rng: random.Random, held_out: bool, shown: int, following: int) -> tuple[str, str]:
    """Lines of a random file from a `def` or `class`, and the lines after them; cut before the line feed between."""
    lines, starts = rng.choice(library_lines(held_out))
    start = rng.choice(starts)
    text = "\n".join(lines[start : start + shown + following]).rstrip("\n") + "\n"
    head = "\n".join(lines[start : start + shown]).rstrip()
    return head, text[len(head) :]
