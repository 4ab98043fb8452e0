"""Test calls of a grammar's function, with the results that they must have."""

import random
from typing import Any

from leapdecode_bench.tasks.code.bodies import Plan
from leapdecode_bench.tasks.code.grammar import Predicate, Source, grammar

# A function's arguments and what it must return for them.
Call = tuple[tuple[Any, ...], Any]
# About how many of the elements have the predicate's property, call by call.
SHARES = (0.5, 1.0, 0.5, 0.0, 0.5, 0.7)


def operand_value(rng: random.Random, source: Source, predicate: Predicate) -> Any:
    """An operand that some of the source's elements match."""
    if predicate.operand == "letter":
        return rng.choice("aeinot") if source.kind == "word" else rng.choice("abexyz")
    if predicate.operand == "length":
        return rng.randint(3, 5)
    if predicate.operand == "divisor":
        return rng.randint(2, 7)
    return rng.randint(2, 7) if source.key in ("digits", "range") else rng.randint(2, 12)


def calls(rng: random.Random, plan: Plan) -> list[Call]:
    """Test calls with their results.

    Mixed elements, matching ones only, none that match, and the cases at the edge.
    """
    tests = []
    for share in SHARES:
        operand = plan.operand
        if plan.parameter and plan.predicate:
            operand = operand_value(rng, plan.source, plan.predicate)
        tests.append((argument_value(rng, plan, operand, share), operand))
    tests += [(argument, plan.operand) for argument in edge_values(plan)]
    return [
        ((argument, operand) if plan.parameter else (argument,), expected(plan, argument, operand))
        for argument, operand in tests
    ]


def edge_values(plan: Plan) -> list[Any]:
    """Nothing at all, and for numbers one element on the predicate's border (`>` against `>=`)."""
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


def expected(plan: Plan, argument: Any, operand: Any) -> Any:
    """What the function must return, by the meaning of its parts."""
    every = list(plan.source.elements(argument))
    chosen = [x for x in every if not plan.predicate or plan.predicate.check(x, operand)]
    if plan.aggregate.key == "any":
        return bool(chosen)
    if plan.aggregate.key == "all":
        return len(chosen) == len(every)
    return plan.aggregate.result([plan.change.change(x, plan.step) for x in chosen])


def argument_value(rng: random.Random, plan: Plan, operand: Any, share: float) -> Any:
    """An argument in which about `share` of the elements have the predicate's property."""
    if plan.source.key == "range":
        return rng.randint(8, 14) if share in (0.0, 1.0) else rng.randint(0, 14)
    pool = elements(plan.source, operand)
    matching = [x for x in pool if plan.predicate is None or plan.predicate.check(x, operand)]
    not_matching = [x for x in pool if x not in matching]
    picked = [
        rng.choice(
            matching if (rng.random() < share and matching) or not not_matching else not_matching
        )
        for _ in range(rng.randint(2, 6))
    ]
    return holding(rng, plan.source.key, picked)


def elements(source: Source, operand: Any) -> list[Any]:
    """What the elements of an argument are drawn from."""
    if source.key == "digits":
        return list(range(10))
    if source.kind == "word":
        return list(grammar().words)
    if source.kind == "char":
        return list(grammar().characters)
    near = [operand - 1, operand, operand + 1] * 5 if isinstance(operand, int) else [0, 0]
    return [*range(-9, 21), *near]  # where mistakes show


def holding(rng: random.Random, source: str, picked: list[Any]) -> Any:
    """An argument that holds these elements, as its source wants them."""
    if source == "digits":
        return int("".join(map(str, picked)))
    if source == "values":
        return dict(zip(rng.sample(grammar().words, len(picked)), picked, strict=True))
    if source == "keys":
        return {word: rng.randint(1, 9) for word in picked}
    if source in ("numbers", "words"):
        return picked
    return (" " if source == "text" else "").join(picked)
