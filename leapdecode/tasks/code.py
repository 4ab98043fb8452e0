"""Python: small documented functions, scored by running them, and classes in a library's manner to continue."""

import ast
import hashlib
import random
import sysconfig
from pathlib import Path
from typing import Any, ClassVar

from leapdecode.tasks import sandbox
from leapdecode.tasks.base import Example, Split, Task
from leapdecode.tasks.code_classes import write_class
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
FAMILY_SHARE = 0.35


class Code(Task):
    """Functions to write from their documentation, and classes to continue that name their methods."""

    name: ClassVar[str] = "code"
    summary: ClassVar[str] = "write a documented Python function (run against tests), or continue a documented class"
    kinds: ClassVar[tuple[str, ...]] = ("function", "source")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        if self.check_kind(kind) == "source":
            found = write_class(rng, split == "held_out")
            made_of = {
                "methods": found.methods,
                "open": found.open,
                "skeleton": found.skeleton,
                "wordings": found.wordings,
            }
            return Example("source", found.head, found.body, made_of)
        written = (write_family if rng.random() < FAMILY_SHARE else write)(rng, split == "held_out")
        facts = {
            "function": written.name,
            "tests": written.tests,
            "skeleton": written.skeleton,
            "wording": written.wording,
        }
        return Example("function", written.head, written.body, facts)

    def score(self, example: Example, text: str) -> float | None:
        """1.0 if the function passes every test, run in the sandbox, or if the class is completed as named; else 0.0.

        A class is right where its open methods are there in order, each with a body that is known for it (comments
        and documentation apart).
        """
        if example.kind == "source":
            return float(completes(example.facts, example.body + function_body(text)))
        return float(passes(example.facts, example.body + function_body(text)))


def methods_of(source: str) -> dict[str, str]:
    """The methods of the one class that `source` is, in order, as trees without documentation; else none.

    None either where a name stands for two methods.
    """
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if len(body) != 1 or not isinstance(body[0], ast.ClassDef):
        return {}
    parts = [part for part in body[0].body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {part.name: undocumented(part) for part in parts}
    return found if len(found) == len(parts) else {}


def undocumented(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A method's tree as text, without its documentation."""
    if ast.get_docstring(method) is not None:
        method.body = method.body[1:]
    return ast.dump(method)


def completes(facts: dict[str, Any], source: str) -> bool:
    """Whether `source` is a class with the methods of `facts`, and those to be written are among the known ones."""
    written = methods_of(source)
    if list(written) != ["__init__", *facts["methods"]]:
        return False
    known = [{tree for text in texts for tree in methods_of(f"class A:\n{text}").values()} for texts in facts["open"]]
    return all(written[name] in trees for name, trees in zip(facts["methods"][-len(known) :], known, strict=True))


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
