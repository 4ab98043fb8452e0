"""Classes in the manner of a standard library: small and documented, each method named at the top.

What follows a few shown methods can thus be known: their names and order are told, their bodies
follow from the name, the documentation and the attributes that the methods above use. The classes
are in `classes/`, one file for each way of keeping a state.
"""

import functools
import random
import zlib
from dataclasses import dataclass

from leapdecode_bench.tasks.data import load_toml

FAMILIES = ("list", "dict", "count", "range")
RESERVED_EVERY = 6  # one order of methods in six is for held-out prompts alone
HELD_OUT_DOCUMENT = 0.4  # share of a held-out class's methods documented in words new to training
METHODS, OPEN = (5, 7), (2, 3)  # fewest and most, of a class and of what is to be written


@dataclass(frozen=True)
class Method:
    """Name and arguments, bodies to choose from, sentences that document it.

    The last sentence is for held-out classes. `{t}` stands for a thing's name, `{ts}` for several,
    also as the attribute that holds them, `{c}` and `{C}` for the class.
    """

    name: str
    arguments: str
    bodies: list[str]
    documents: list[str]


@dataclass(frozen=True)
class Family:
    """Classes that keep their state in the same way: their names, summaries and methods.

    `things` are pairs of one and several, `begins` pairs of arguments and body of __init__.
    """

    key: str
    classes: list[str]
    things: list[list[str]]
    summaries: list[str]
    begins: list[list[str]]
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class WrittenClass:
    """The text of a class in two halves, and what it is made of.

    `methods` are the names of all, `open` the known texts of each that is to be written.
    """

    head: str
    body: str
    methods: list[str]
    open: list[list[str]]
    skeleton: str
    wordings: list[str]


@functools.cache
def family(key: str) -> Family:
    """The classes of one file, read once."""
    table = load_toml(f"code/classes/{key}.toml")
    methods = tuple(Method(**method) for method in table["methods"])
    return Family(**table | {"key": key, "methods": methods})


def skeleton(of: Family, methods: list[Method]) -> str:
    """Which methods, in which order."""
    return " ".join([of.key, *(method.name for method in methods)])


def is_reserved(of: Family, methods: list[Method]) -> bool:
    """Whether methods come in this order in held-out prompts only."""
    return zlib.crc32(skeleton(of, methods).encode()) % RESERVED_EVERY == 0


def draw_methods(rng: random.Random, of: Family, held_out: bool) -> list[Method]:
    """Methods in a reserved order if `held_out`, else in another one."""
    while True:
        methods = rng.sample(of.methods, rng.randint(*METHODS))
        if is_reserved(of, methods) == held_out:
            return methods


def write_class(rng: random.Random, held_out: bool) -> WrittenClass:
    """A class, cut between two of its methods; reserved order and wordings if `held_out`."""
    of = family(rng.choice(FAMILIES))
    methods = draw_methods(rng, of, held_out)
    name, (thing, things) = rng.choice(of.classes), rng.choice(of.things)
    fields = {"C": name, "c": name.lower(), "t": thing, "ts": things}
    begin = method_text("__init__", *rng.choice(of.begins))
    summary = rng.choice(of.summaries)
    num_shown = len(methods) - rng.randint(*OPEN)
    written, wordings = write_methods(rng, methods, num_shown, held_out)
    names = [method.name.format_map(fields) for method in methods]
    first = f'class {{C}}:\n    """{summary}: {", ".join(names[:-1])} and {names[-1]}."""'
    texts = [piece.format_map(fields) for piece in (first, begin, *written)]
    return WrittenClass(
        head="\n\n".join(texts[: num_shown + 2]),
        body="\n\n" + "\n\n".join(texts[num_shown + 2 :]) + "\n",
        methods=names,
        open=[known_texts(method, fields) for method in methods[num_shown:]],
        skeleton=skeleton(of, methods),
        wordings=wordings,
    )


def write_methods(
    rng: random.Random, methods: list[Method], num_shown: int, held_out: bool
) -> tuple[list[str], list[str]]:
    """The methods' texts, still with their fields open, and the sentence that documents each.

    A held-out class has a new wording in the half that is to be written.
    """
    surely = rng.randrange(num_shown, len(methods))
    texts, wordings = [], []
    for number, method in enumerate(methods):
        fresh = held_out and (number == surely or rng.random() < HELD_OUT_DOCUMENT)
        document = method.documents[-1] if fresh else rng.choice(method.documents[:-1])
        wordings.append(document)
        body = rng.choice(method.bodies)
        texts.append(method_text(method.name, method.arguments, body, document))
    return texts, wordings


def known_texts(method: Method, fields: dict[str, str]) -> list[str]:
    """Every way to write a method, without documentation."""
    return [
        method_text(method.name, method.arguments, body).format_map(fields)
        for body in method.bodies
    ]


def method_text(name: str, arguments: str, body: str, document: str = "") -> str:
    """A method's text, still with its fields open."""
    taken = f"self, {arguments}" if arguments else "self"
    lines = [f"    def {name}({taken}):", *([f'        """{document}"""'] if document else [])]
    return "\n".join([*lines, *(f"        {line}" for line in body.splitlines())])
