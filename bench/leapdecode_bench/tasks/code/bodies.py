"""Bodies of the grammar's functions: a loop, a comprehension, two steps, ... that all do the same.

The ways to write each are in `bodies.toml`.
"""

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

from leapdecode_bench.tasks.code.grammar import Aggregate, Map, Predicate, Source
from leapdecode_bench.tasks.data import load_toml

IF_SHARE = 0.7  # of loops have an `if` around their step; the others skip what is not wanted


@dataclass(frozen=True)
class Plan:
    """One choice of parts and of every name in the text.

    `operand` is the predicate's: a literal's value or None.
    """

    source: Source
    predicate: Predicate | None
    change: Map
    aggregate: Aggregate
    argument: str
    variable: str
    result: str
    chosen: str
    parameter: str  # the name of the predicate's operand where it is an argument
    operand: Any
    step: int  # the map's literal

    def fill(self, template: str, **more: str) -> str:
        """`template` with this plan's names put in."""
        operand = self.parameter or repr(self.operand)
        names = {"s": self.argument, "x": self.variable, "r": self.result}
        names |= {"k": operand, "m": str(self.step)}
        return Template(template).substitute(names | more)


# One way to write a body: it takes a plan and returns the lines, not yet indented.
Style = Callable[[random.Random, Plan], list[str]]


@dataclass(frozen=True)
class Pieces:
    """The code of a plan's parts."""

    source: str
    value: str
    test: str  # empty without a predicate
    negated: str
    clause: str  # "for x in values if x > 0"


def pieces(rng: random.Random, plan: Plan) -> Pieces:
    """The code of a plan's parts, in one of the ways that each can be written."""
    source = plan.fill(rng.choice(plan.source.code))
    value = plan.fill(rng.choice(plan.change.code))
    test = plan.fill(rng.choice(plan.predicate.code)) if plan.predicate else ""
    negated = plan.fill(rng.choice(plan.predicate.negated)) if plan.predicate else ""
    clause = f"for {plan.variable} in {source}" + (f" if {test}" if test else "")
    return Pieces(source, value, test, negated, clause)


def values_of(plan: Plan, code: Pieces) -> str:
    """What a call such as `sum(...)` takes.

    The bare source where nothing is chosen and nothing changed.
    """
    bare = not code.test and code.value == plan.variable
    return code.source if bare else f"{code.value} {code.clause}"


def listed(plan: Plan, code: Pieces) -> str:
    """The values as a list."""
    bare = not code.test and code.value == plan.variable
    return f"list({code.source})" if bare else f"[{code.value} {code.clause}]"


def loop(rng: random.Random, plan: Plan, start: str, step: list[str], end: str) -> list[str]:
    """A loop with an `if` around its step, or one that skips what is not wanted.

    `$v` is the changed element.
    """
    code = pieces(rng, plan)
    step = [plan.fill(line, v=code.value) for line in step]
    if code.test and rng.random() < IF_SHARE:
        step = [f"if {code.test}:", *(f"    {line}" for line in step)]
    elif code.test:
        step = [f"if {code.negated}:", "    continue", *step]
    head = f"for {plan.variable} in {code.source}:"
    lines = [plan.fill(start), head, *(f"    {line}" for line in step), plan.fill(end)]
    return [line for line in lines if line]


def looped(step: list[str], start: str = "", end: str = "return $r") -> Style:
    """The style of a loop with an accumulator."""
    return lambda rng, plan: loop(rng, plan, start, step, end)


def called(template: str) -> Style:
    """One `return` around a comprehension; `bodies.toml` names its parts."""

    def style(rng: random.Random, plan: Plan) -> list[str]:
        code = pieces(rng, plan)
        values = values_of(plan, code)
        generator = values if values == code.source else f"({values})"
        more = {"V": values, "G": generator, "L": listed(plan, code)}
        more |= {"C": code.clause, "S": code.source, "t": code.test}
        return [plan.fill(template, **more)]

    return style


def in_two_steps(ends: list[str]) -> Style:
    """A list of the wanted values in a variable `$c`, then the rest."""

    def style(rng: random.Random, plan: Plan) -> list[str]:
        values = listed(plan, pieces(rng, plan))
        return [f"{plan.chosen} = {values}", *(plan.fill(end, c=plan.chosen) for end in ends)]

    return style


def found_early(found: str, otherwise: str, unless: bool = False) -> Style:
    """A loop that ends as soon as one element is as wanted, or (`unless`) is not."""

    def style(rng: random.Random, plan: Plan) -> list[str]:
        code = pieces(rng, plan)
        return [
            f"for {plan.variable} in {code.source}:",
            f"    if {code.negated if unless else code.test}:",
            f"        return {found}",
            f"return {otherwise}",
        ]

    return style


def extreme(sign: str) -> Style:
    """The largest (">") or smallest ("<") by a loop.

    A changed element gets a name of its own first.
    """

    def style(rng: random.Random, plan: Plan) -> list[str]:
        changed = plan.change.key != "same"
        element = "current" if changed else "$x"
        step = ["current = $v"] if changed else []
        step += [f"if best is None or {element} {sign} best:", f"    best = {element}"]
        return loop(rng, plan, "best = None", step, "return best")

    return style


# The styles that `bodies.toml` knows, by the word that opens them.
STYLES: dict[str, Callable[..., Style]] = {
    "loop": looped,
    "call": called,
    "kept": in_two_steps,
    "extreme": extreme,
    "found": found_early,
}


@functools.cache
def styles(aggregate: str) -> tuple[Style, ...]:
    """The ways to write what comes out, the longest first."""
    return tuple(_style(**table) for table in load_toml("code/bodies.toml")[aggregate])


def _style(**table: Any) -> Style:
    (word,) = STYLES.keys() & table.keys()
    return STYLES[word](table.pop(word), **table)
