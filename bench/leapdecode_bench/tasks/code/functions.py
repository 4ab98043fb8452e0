"""Writes a function of the grammar: its documentation and name, one of its bodies, tests."""

import random
from dataclasses import dataclass
from string import Template

from leapdecode_bench.tasks.code.arguments import Call, calls, operand_value
from leapdecode_bench.tasks.code.bodies import Plan, styles
from leapdecode_bench.tasks.code.grammar import Aggregate, Map, Predicate, grammar

# One pair of opener and noun in so many is for held-out prompts.
FRAME_RESERVED_EVERY = 5
EXAMPLES = 0.3  # share of documentations with an example call
LONGEST_EXAMPLE = 50
VAGUE_NAMES = 0.33  # share of names that do not say what the function does


def place_phrase(rng: random.Random, plan: Plan) -> str:
    """Where the elements are: "in values", but not "of the text text"."""
    return plan.fill(
        rng.choice([place for place in plan.source.places if f"{plan.argument} $s" not in place])
    )


def elements_phrase(rng: random.Random, plan: Plan, article: bool) -> str:
    """The elements: "the even numbers in values", "numbers in values that are greater than 5"."""
    noun = plan.source.noun[1]
    place = " " + place_phrase(rng, plan)
    the = "the " if article else ""
    predicate = plan.predicate
    if predicate is None:
        return f"{rng.choice(('all ', 'the ')) if article else ''}{noun}{place}"
    if predicate.verbs:
        _, plural, ing = predicate.verbs
        ways = [f"{the}{noun}{place} that {plural}", f"{the}{noun}{place} {ing}"]
        return plan.fill(rng.choice(ways))
    ways = [f"{the}{noun}{place} that are {words}" for words in predicate.complements]
    if predicate.adjective:
        ways = [f"{the}{predicate.adjective} {noun}{place}"] * 3 + ways[:1]
    elif predicate.noun:
        ways += [f"{the}{predicate.noun}{place}"] * 2
    else:
        ways += [f"{the}{noun} {words}{place}" for words in predicate.complements]
    return plan.fill(rng.choice(ways))


def claim_phrase(rng: random.Random, plan: Plan) -> str:
    """One element and its property: "number in values is even"."""
    assert plan.predicate is not None
    predicate = plan.predicate
    place = place_phrase(rng, plan)
    if predicate.verbs:
        ending = predicate.verbs[0]
    else:
        ending = "is " + (predicate.singular or rng.choice(predicate.complements))
    return plan.fill(f"{plan.source.noun[0]} {place} {ending}")


def frames(aggregate: Aggregate, held_out: bool) -> list[str]:
    """How a sentence about an aggregate can begin, in one of the splits."""
    truth = aggregate.key in ("any", "all")
    openers = grammar().truth_openers if truth else grammar().openers
    shift = grammar().aggregates.index(aggregate)
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


def docstring(rng: random.Random, name: str, sentence: str, tests: list[Call]) -> str:
    """The documentation as it stands in the source, with an example now and then."""
    if rng.random() >= EXAMPLES:
        return f'    """{sentence}"""'
    arguments, value = rng.choice([test for test in tests if test[1] is not None] or tests)
    call = f"{name}({', '.join(map(repr, arguments))})"
    # The order of a set is not fixed.
    if isinstance(value, set) or value is None or len(call) > LONGEST_EXAMPLE:
        return f'    """{sentence}"""'
    return f'    """{sentence}\n\n    >>> {call}\n    {value!r}\n    """'


def function_name(rng: random.Random, plan: Plan) -> str:
    """A name that says what the function does, or (one in three) one that does not."""
    if rng.random() < VAGUE_NAMES:
        return rng.choice(grammar().vague_names)
    key = plan.aggregate.key
    middle = [plan.predicate.key] if plan.predicate else []
    middle += [plan.change.key] if plan.change.key != "same" else []
    middle = [grammar().named.get(part, part) for part in middle]
    rng.shuffle(middle)
    last = [plan.source.noun[1]] if not middle or rng.random() < 0.4 else []
    return "_".join([grammar().named_first.get(key, key), *middle, *last])


# One combination of predicate, map and aggregate in so many is for held-out prompts alone.
RESERVED_EVERY = 8
FILTERED, MAPPED = 0.75, 0.6  # share of functions with a predicate, and with a map
ARGUMENT_SHARE = 0.5  # of operands are arguments; the others are literals


@dataclass(frozen=True)
class Written:
    """A function: its text in two halves, its name, calls and results, what it is made of."""

    head: str
    body: str
    name: str
    tests: list[Call]
    skeleton: str
    wording: str


def is_reserved(kind: str, predicate: Predicate | None, change: Map, aggregate: Aggregate) -> bool:
    """Whether these parts come together in held-out prompts only."""
    parts = grammar()
    places = (
        0 if predicate is None else 1 + parts.predicates[kind].index(predicate),
        parts.maps[kind].index(change),
        parts.aggregates.index(aggregate),
    )
    return (3 * places[0] + 5 * places[1] + 7 * places[2]) % RESERVED_EVERY == 0


def is_compatible(kind: str, change: Map, aggregate: Aggregate) -> bool:
    """Whether an aggregate can take what a map makes of words; others always fit."""
    needs_words = kind == "word" and aggregate.key in ("words", "longest", "shortest")
    return not needs_words or change.key != "lengths"


def write(rng: random.Random, held_out: bool) -> Written:
    """A function of the grammar.

    It has a reserved combination and wording if `held_out`, else neither.
    """
    while True:
        plan = choose(rng)
        parts = (plan.source.kind, plan.predicate, plan.change, plan.aggregate)
        if is_reserved(*parts) != held_out:
            continue
        tests = calls(rng, plan)
        if len({repr(expected) for _, expected in tests}) > 1:
            break
    wording, sentence = document(rng, plan, held_out)
    name = function_name(rng, plan)
    arguments = ", ".join(filter(None, (plan.argument, plan.parameter)))
    head = f"def {name}({arguments}):\n" + docstring(rng, name, sentence, tests)
    ways = styles(plan.aggregate.key)
    (style,) = rng.choices(ways, weights=[2] + [1] * (len(ways) - 1))
    body = "".join(f"\n    {line}" for line in style(rng, plan)) + "\n"
    return Written(head, body, name, tests, skeleton(plan), f"{plan.aggregate.key}: {wording}")


def skeleton(plan: Plan) -> str:
    """The plan's parts."""
    predicate = plan.predicate.key if plan.predicate else "every"
    return "/".join((plan.source.kind, predicate, plan.change.key, plan.aggregate.key))


def choose(rng: random.Random) -> Plan:
    """Parts that fit together, and names that do not collide."""
    source = rng.choice(grammar().sources)
    fitting = [part for part in grammar().aggregates if part.key in source.aggregates]
    aggregate = rng.choice(fitting)
    predicate = None
    if aggregate.filter or rng.random() < FILTERED:
        predicate = rng.choice(source.fitting_predicates())
    change = grammar().maps[source.kind][0]
    if aggregate.maps and rng.random() < MAPPED:
        maps = source.fitting_maps()
        change = rng.choice([m for m in maps if is_compatible(source.kind, m, aggregate)])
    argument = rng.choice(source.arguments)
    variable = rng.choice([name for name in source.variables if name != argument])
    parameter, operand = "", None
    if predicate and predicate.operand:
        operand = operand_value(rng, source, predicate)
        if rng.random() < ARGUMENT_SHARE:
            names = grammar().operands[predicate.operand]
            parameter = rng.choice([name for name in names if name not in (argument, variable)])
    result, chosen = rng.choice(grammar().results), rng.choice(grammar().chosen)
    names_inside = (argument, variable, result, chosen, parameter)
    return Plan(source, predicate, change, aggregate, *names_inside, operand, rng.randint(2, 9))
