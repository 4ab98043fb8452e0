"""Small functions outside the grammar: each family is one function in several wordings and bodies.

The text of a family is in `families.toml`, what it must return in `references.py`, and arguments to
try it on in `inputs.py`, all by its first name.
"""

import contextlib
import functools
import random
from dataclasses import dataclass
from string import Template
from typing import Any

from leapdecode_bench.tasks.code.arguments import Call
from leapdecode_bench.tasks.code.functions import Written
from leapdecode_bench.tasks.code.inputs import INPUTS
from leapdecode_bench.tasks.code.references import REFERENCES
from leapdecode_bench.tasks.code.sentences import docstring
from leapdecode_bench.tasks.data import load_toml

# What a documentation leaves open at 0 or at nothing, or what would never end there.
OPEN_EDGES = frozenset(("gcd", "lcm", "clamp", "rotate", "transpose", "collatz"))
# Nothing, zero, one, the square of a prime.
EDGES: dict[type, list[Any]] = {int: [0, 1, 2, 25], list: [[]], str: ["", "a"], dict: [{}]}
CALLS = 6


@dataclass(frozen=True)
class Family:
    """One function: its names, its arguments (a row is one choice), documents and bodies.

    Documents go without "Return" and the full stop where they start with a small letter.
    """

    names: list[str]
    arguments: list[list[str]]
    documents: list[str]
    bodies: list[str]

    @property
    def key(self) -> str:
        return self.names[0]


@functools.cache
def families() -> tuple[Family, ...]:
    """All families, read once."""
    tables = load_toml("code/families.toml")
    shared = tables["arguments"]
    return tuple(_family(table, shared) for table in tables["family"])


def _family(table: dict[str, Any], shared: dict[str, list[list[str]]]) -> Family:
    arguments = table["arguments"]  # names of its own, or what several families have
    rows = shared[arguments] if isinstance(arguments, str) else arguments
    return Family(**table | {"arguments": rows})


def write_family(rng: random.Random, held_out: bool) -> Written:
    """One of the families, in a wording of one split."""
    family = rng.choice(families())
    choices = family.documents[-1:] if held_out else family.documents[:-1]
    document, name = rng.choice(choices), rng.choice(family.names)
    arguments = rng.choice(family.arguments)
    names = dict(zip("abc", arguments, strict=False)) | {"f": name}
    for local, pool in load_toml("code/families.toml")["locals"].items():
        names[local] = rng.choice([word for word in pool if word not in names.values()])
    sentence = Template(document).substitute(names) + "."
    sentence = sentence if document[0].isupper() else f"Return {sentence}"
    tests = calls(rng, family)
    head = f"def {name}({', '.join(arguments)}):\n" + docstring(rng, name, sentence, tests)
    tests += edges(family, tests[0][0])
    lines = Template(rng.choice(family.bodies)).substitute(names).split("\n")
    body = "".join(f"\n    {line}" for line in lines) + "\n"
    wording = f"{family.key}: {document}"
    return Written(head, body, name, tests, f"family/{family.key}", wording)


def calls(rng: random.Random, family: Family) -> list[Call]:
    """Six calls with their results, of which not all are the same."""
    inputs, reference = INPUTS[family.key], REFERENCES[family.key]
    while True:
        drawn = [inputs(rng) for _ in range(CALLS)]
        tests = [(arguments, reference(*arguments)) for arguments in drawn]
        if len({repr(expected) for _, expected in tests}) > 1:
            return tests


def edges(family: Family, arguments_of_call: tuple[Any, ...]) -> list[Call]:
    """Calls with one of its arguments at an edge, with results."""
    if family.key in OPEN_EDGES:
        return []
    reference = REFERENCES[family.key]
    edge_calls = []
    for position, argument in enumerate(arguments_of_call):
        for edge in EDGES.get(type(argument), []):
            arguments = (*arguments_of_call[:position], edge, *arguments_of_call[position + 1 :])
            # Where it is not defined, there is no call.
            with contextlib.suppress(ValueError, IndexError, ZeroDivisionError):
                edge_calls.append((arguments, reference(*arguments)))
    return edge_calls
