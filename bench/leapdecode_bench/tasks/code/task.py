"""Python: small documented functions, scored by running them, and classes to continue."""

import random
from typing import ClassVar

from leapdecode_bench.tasks.base import Example, Split, Task
from leapdecode_bench.tasks.code.classes import write_class
from leapdecode_bench.tasks.code.families import write_family
from leapdecode_bench.tasks.code.functions import write
from leapdecode_bench.tasks.code.scoring import completes, function_body, passes

FAMILY_SHARE = 0.35  # of functions; the others come from the grammar


class Code(Task):
    """Functions to write from their documentation, and classes to continue."""

    name: ClassVar[str] = "code"
    summary: ClassVar[str] = (
        "write a documented Python function (run against tests), or continue a documented class"
    )
    kinds: ClassVar[tuple[str, ...]] = ("function", "source")

    def make(self, rng: random.Random, split: Split, kind: str) -> Example:
        """A function or a class, cut in two. `facts` has what `score` must know."""
        if self.check_kind(kind) == "source":
            return continued_class(rng, split)
        write_one = write_family if rng.random() < FAMILY_SHARE else write
        written = write_one(rng, split == "held_out")
        facts = {
            "function": written.name,
            "tests": written.tests,
            "skeleton": written.skeleton,
            "wording": written.wording,
        }
        return Example("function", written.head, written.body, facts)

    def score(self, example: Example, text: str) -> float | None:
        """1.0 if the function passes every test, or if the class is completed as named; else 0.0.

        A function runs in the sandbox. A class is right where its open methods are there in order,
        each with a body that is known for it (comments and documentation apart).
        """
        right = completes if example.kind == "source" else passes
        return float(right(example.facts, example.body + function_body(text)))


def continued_class(rng: random.Random, split: Split) -> Example:
    """A class to continue."""
    written = write_class(rng, split == "held_out")
    facts = {
        "methods": written.methods,
        "open": written.open,
        "skeleton": written.skeleton,
        "wordings": written.wordings,
    }
    return Example("source", written.head, written.body, facts)
