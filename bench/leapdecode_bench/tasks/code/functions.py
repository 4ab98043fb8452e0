"""Writes a function of the grammar: its documentation and name, one of its bodies, tests."""

import random
from dataclasses import dataclass

from leapdecode_bench.tasks.code.arguments import Call, calls, operand_value
from leapdecode_bench.tasks.code.bodies import Plan, styles
from leapdecode_bench.tasks.code.grammar import Aggregate, Map, Predicate, grammar
from leapdecode_bench.tasks.code.sentences import docstring, document, function_name

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
