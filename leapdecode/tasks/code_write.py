"""Writes a function of the grammar: its documentation, its name, one of several bodies, and test calls."""

import random
from dataclasses import dataclass
from string import Template
from typing import Any

from leapdecode.tasks import code_grammar as grammar
from leapdecode.tasks.code_bodies import STYLES, Plan
from leapdecode.tasks.code_grammar import Aggregate, Map, Predicate, Source

PREDICATES = {
    "number": grammar.NUMBER_PREDICATES,
    "word": grammar.WORD_PREDICATES,
    "char": grammar.CHARACTER_PREDICATES,
}
MAPS = {"number": grammar.NUMBER_MAPS, "word": grammar.WORD_MAPS, "char": grammar.CHARACTER_MAPS}
RESERVED_EVERY = 8  # one combination of predicate, map and aggregate in eight is for held-out prompts alone
FRAME_RESERVED_EVERY = 5
OPERANDS = {
    "number": ("limit", "bound", "k", "threshold"),
    "divisor": ("divisor", "k", "step", "factor"),
    "length": ("length", "size", "k", "limit"),
    "letter": ("letter", "start", "mark", "key"),
}
RESULTS = ("result", "total", "answer", "found", "output")
CHOSEN = ("chosen", "kept", "selected", "matching")
WORDS = (
    "apple", "banana", "level", "sun", "tree", "anna", "river", "oak", "stone", "civic", "bird", "area", "moon",
    "elephant", "noon", "grass", "eye", "table", "ant", "idea",
)  # fmt: skip
CHARACTERS = "aeiouAEbcdxyzBCD 0123 7"
NAMES = {"sizes": "absolute", "same": "equal"}


@dataclass(frozen=True)
class Written:
    """A function: its text in two halves, its name, calls with the values they must return, and what it is made of."""

    head: str
    body: str
    name: str
    tests: list[tuple[tuple[Any, ...], Any]]
    skeleton: str
    wording: str


def kind_of(source: Source) -> str:
    """What its elements are: "number", "word" or "char"."""
    by_source = {"words": "word", "text": "word", "keys": "word", "characters": "char"}
    return by_source.get(source.key, "number")


def is_reserved(kind: str, predicate: Predicate | None, change: Map, aggregate: Aggregate) -> bool:
    """Whether these parts come together in held-out prompts only."""
    places = (
        0 if predicate is None else 1 + PREDICATES[kind].index(predicate),
        MAPS[kind].index(change),
        grammar.AGGREGATES.index(aggregate),
    )
    return (3 * places[0] + 5 * places[1] + 7 * places[2]) % RESERVED_EVERY == 0


def is_compatible(kind: str, change: Map, aggregate: Aggregate) -> bool:
    """Whether an aggregate can take what a map makes of words; numbers and characters always fit."""
    if kind != "word":
        return True
    return (change.key != "lengths") if aggregate.key in ("words", "longest", "shortest") else True


def write(rng: random.Random, held_out: bool) -> Written:
    """A function of the grammar with a reserved combination and wording (`held_out`), or with neither."""
    while True:
        plan = choose(rng)
        if is_reserved(kind_of(plan.source), plan.predicate, plan.change, plan.aggregate) != held_out:
            continue
        tests = calls(rng, plan)
        if len({repr(expected) for _, expected in tests}) > 1:
            break
    wording, sentence = document(rng, plan, held_out)
    name = function_name(rng, plan)
    arguments = ", ".join(filter(None, (plan.argument, plan.parameter)))
    head = f"def {name}({arguments}):\n" + docstring(rng, name, sentence, tests)
    styles = STYLES[plan.aggregate.key]
    (style,) = rng.choices(styles, weights=[2] + [1] * (len(styles) - 1))  # the first is the longest: a loop
    body = "".join(f"\n    {line}" for line in style(rng, plan)) + "\n"
    return Written(head, body, name, tests, skeleton(plan), f"{plan.aggregate.key}: {wording}")


def skeleton(plan: Plan) -> str:
    parts = (kind_of(plan.source), plan.predicate.key if plan.predicate else "every", plan.change.key)
    return "/".join((*parts, plan.aggregate.key))


def choose(rng: random.Random) -> Plan:
    """Parts that fit together, and names that do not collide."""
    source = rng.choice(grammar.SOURCES)
    kind = kind_of(source)
    aggregate = rng.choice([part for part in grammar.AGGREGATES if part.key in source.aggregates])
    predicate = None
    if aggregate.filter or rng.random() < 0.75:
        predicate = rng.choice([part for part in PREDICATES[kind] if part.key in source.predicates])
    change = MAPS[kind][0]
    if aggregate.maps and rng.random() < 0.6:
        fitting = [part for part in MAPS[kind] if part.key in source.maps and is_compatible(kind, part, aggregate)]
        change = rng.choice(fitting)
    argument = rng.choice(source.arguments)
    variable = rng.choice([name for name in source.variables if name != argument])
    parameter, operand = "", None
    if predicate and predicate.operand:
        operand = operand_value(rng, source, predicate)
        if rng.random() < 0.5:
            parameter = rng.choice([name for name in OPERANDS[predicate.operand] if name not in (argument, variable)])
    result, chosen = rng.choice(RESULTS), rng.choice(CHOSEN)
    return Plan(
        source, predicate, change, aggregate, argument, variable, result, chosen, parameter, operand, rng.randint(2, 9)
    )


def operand_value(rng: random.Random, source: Source, predicate: Predicate) -> Any:
    if predicate.operand == "letter":
        return rng.choice("aeinot") if kind_of(source) == "word" else rng.choice("abexyz")
    if predicate.operand == "length":
        return rng.randint(3, 5)
    if predicate.operand == "divisor":
        return rng.randint(2, 7)
    return rng.randint(2, 7) if source.key in ("digits", "range") else rng.randint(2, 12)


def calls(rng: random.Random, plan: Plan) -> list[tuple[tuple[Any, ...], Any]]:
    """Test calls with their results: mixed elements, matching ones only, none that match, and the cases at the edge."""
    tests = []
    for share in (0.5, 1.0, 0.5, 0.0, 0.5, 0.7):
        operand = plan.operand
        if plan.parameter and plan.predicate:
            operand = operand_value(rng, plan.source, plan.predicate)
        tests.append((argument_value(rng, plan, operand, share), operand))
    tests += [(given, plan.operand) for given in edge_values(plan)]
    return [
        ((given, operand) if plan.parameter else (given,), expected(plan, given, operand)) for given, operand in tests
    ]


def edge_values(plan: Plan) -> list[Any]:
    """Nothing at all, and for numbers a lone element on the predicate's border (`>` against `>=`)."""
    border = plan.operand if isinstance(plan.operand, int) else 0
    edges: dict[str, list[Any]] = {
        "numbers": [[], [border]],
        "values": [{}, {"edge": border}],
        "digits": [border],
        "range": [border],
        "words": [[]],
        "keys": [{}],
    }
    return edges.get(plan.source.key, [""])


def expected(plan: Plan, given: Any, operand: Any) -> Any:
    """What the function must return, by the callables of its parts."""
    elements = [x for x in plan.source.elements(given) if not plan.predicate or plan.predicate.check(x, operand)]
    if plan.aggregate.key == "any":
        return bool(elements)
    if plan.aggregate.key == "all":
        return len(elements) == len(list(plan.source.elements(given)))
    return plan.aggregate.result([plan.change.change(x, plan.step) for x in elements])


def argument_value(rng: random.Random, plan: Plan, operand: Any, share: float) -> Any:
    """An argument in which about `share` of the elements have the predicate's property."""
    key, kind = plan.source.key, kind_of(plan.source)
    if key == "range":
        return rng.randint(8, 14) if share in (0.0, 1.0) else rng.randint(0, 14)
    near = [operand - 1, operand, operand + 1] * 5 if isinstance(operand, int) else [0, 0]  # where mistakes show
    pool: list[Any] = {"number": [*range(-9, 21), *near], "word": list(WORDS), "char": list(CHARACTERS)}[kind]
    if key == "digits":
        pool = list(range(10))
    matching = [x for x in pool if plan.predicate is None or plan.predicate.check(x, operand)]
    others = [x for x in pool if x not in matching]
    picked = [
        rng.choice(matching if (rng.random() < share and matching) or not others else others)
        for _ in range(rng.randint(2, 6))
    ]
    if key == "digits":
        return int("".join(map(str, picked)))
    if key == "values":
        return dict(zip(rng.sample(WORDS, len(picked)), picked, strict=True))
    if key == "keys":
        return {word: rng.randint(1, 9) for word in picked}
    return picked if key in ("numbers", "words") else (" " if key == "text" else "").join(picked)


def place_phrase(rng: random.Random, plan: Plan) -> str:
    """Where the elements are: "in values", but not "of the text text"."""
    return plan.fill(rng.choice([place for place in plan.source.places if f"{plan.argument} $s" not in place]))


def elements_phrase(rng: random.Random, plan: Plan, article: bool) -> str:
    """The elements in words: "the even numbers in values", "numbers in values that are greater than 5"."""
    noun, place = plan.source.noun[1], " " + place_phrase(rng, plan)
    the = "the " if article else ""
    predicate = plan.predicate
    if predicate is None:
        return f"{rng.choice(('all ', 'the ')) if article else ''}{noun}{place}"
    ways = [f"{the}{noun}{place} that are {words}" for words in predicate.complements]
    ways += [f"{the}{noun} {words}{place}" for words in predicate.complements if not predicate.noun]
    if predicate.adjective:
        ways = [f"{the}{predicate.adjective} {noun}{place}"] * 3 + ways[:1]
    if predicate.noun:
        ways += [f"{the}{predicate.noun}{place}"] * 2
    if predicate.verbs:
        ways = [f"{the}{noun}{place} that {predicate.verbs[1]}", f"{the}{noun}{place} {predicate.verbs[2]}"]
    return plan.fill(rng.choice(ways))


def claim_phrase(rng: random.Random, plan: Plan) -> str:
    """One element and its property: "number in values is even"."""
    assert plan.predicate is not None
    predicate, place = plan.predicate, place_phrase(rng, plan)
    if predicate.verbs:
        ending = predicate.verbs[0]
    else:
        ending = "is " + (predicate.singular or rng.choice(predicate.complements))
    return plan.fill(f"{plan.source.noun[0]} {place} {ending}")


def frames(aggregate: Aggregate, held_out: bool) -> list[str]:
    """How a sentence about an aggregate can begin; one pair of opener and noun in five is for held-out prompts."""
    openers = grammar.TRUTH_OPENERS if aggregate.key in ("any", "all") else grammar.OPENERS
    shift = grammar.AGGREGATES.index(aggregate)
    pairs = [
        f"{opener} {noun}"
        for place, opener in enumerate(openers)
        for number, noun in enumerate(aggregate.nouns)
        if ((place + 2 * number + shift) % FRAME_RESERVED_EVERY == 0) == held_out
    ]
    return pairs if held_out else [*aggregate.orders, *pairs]


def document(rng: random.Random, plan: Plan, held_out: bool) -> tuple[str, str]:
    """The frame of the sentence and the sentence."""
    frame = rng.choice(frames(plan.aggregate, held_out))
    things = elements_phrase(rng, plan, article=True)
    change = plan.change
    if change.before or change.after:
        if rng.randrange(len(change.before) + len(change.after)) < len(change.before):
            things = f"{plan.fill(rng.choice(change.before))} {things}"
        else:
            things += plan.fill(rng.choice(change.after)) + ("," if "$T " in frame else "")
    plural = elements_phrase(rng, plan, article=False)
    claim = claim_phrase(rng, plan) if plan.predicate else ""
    return frame, Template(frame).substitute(T=things, P=plural, A=claim) + "."


def docstring(
    rng: random.Random, name: str, sentence: str, tests: list[tuple[tuple[Any, ...], Any]], examples: float = 0.3
) -> str:
    """The documentation as it stands in the source, with an example now and then."""
    if rng.random() >= examples:
        return f'    """{sentence}"""'
    arguments, value = rng.choice([test for test in tests if test[1] is not None] or tests)
    call = f"{name}({', '.join(map(repr, arguments))})"
    if isinstance(value, set) or value is None or len(call) > 50:  # a set's order is not fixed
        return f'    """{sentence}"""'
    return f'    """{sentence}\n\n    >>> {call}\n    {value!r}\n    """'


def function_name(rng: random.Random, plan: Plan) -> str:
    """A name that says what the function does, or (one in three) one that does not."""
    if rng.random() < 0.33:
        return rng.choice(("solve", "compute", "answer", "process", "evaluate", "run"))
    aggregate = {"text": "join", "words": "join", "set": "unique", "any": "has", "list": "get"}
    first = aggregate.get(plan.aggregate.key, plan.aggregate.key)
    parts = [part for part in (plan.predicate, plan.change) if part and part is not grammar.NOTHING]
    middle = [NAMES.get(part.key, part.key) for part in parts]
    rng.shuffle(middle)
    last = [plan.source.noun[1]] if not middle or rng.random() < 0.4 else []
    return "_".join([first, *middle, *last])
