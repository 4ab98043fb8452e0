"""Bodies of the grammar's functions: a loop, a comprehension, two steps, ... that all do the same."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from string import Template
from typing import Any

from leapdecode.tasks.code_grammar import Aggregate, Map, Predicate, Source


@dataclass(frozen=True)
class Plan:
    """One choice of parts and of every name in the text. `operand` is the predicate's: a literal's value or None."""

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
        names = {"s": self.argument, "x": self.variable, "r": self.result, "k": operand, "m": str(self.step)}
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
    source = plan.fill(rng.choice(plan.source.code))
    value = plan.fill(rng.choice(plan.change.code))
    test = plan.fill(rng.choice(plan.predicate.code)) if plan.predicate else ""
    negated = plan.fill(rng.choice(plan.predicate.negated)) if plan.predicate else ""
    clause = f"for {plan.variable} in {source}" + (f" if {test}" if test else "")
    return Pieces(source, value, test, negated, clause)


def values_of(plan: Plan, code: Pieces) -> str:
    """What a call such as `sum(...)` takes: the bare source where nothing is chosen and nothing changed."""
    return code.source if not code.test and code.value == plan.variable else f"{code.value} {code.clause}"


def listed(plan: Plan, code: Pieces) -> str:
    """The values as a list."""
    bare = not code.test and code.value == plan.variable
    return f"list({code.source})" if bare else f"[{code.value} {code.clause}]"


def loop(rng: random.Random, plan: Plan, start: str, step: list[str], end: str) -> list[str]:
    """A loop with an `if` around its step, or one that skips what is not wanted. `$v` is the changed element."""
    code = pieces(rng, plan)
    step = [plan.fill(line, v=code.value) for line in step]
    if code.test and rng.random() < 0.7:
        step = [f"if {code.test}:", *(f"    {line}" for line in step)]
    elif code.test:
        step = [f"if {code.negated}:", "    continue", *step]
    head = f"for {plan.variable} in {code.source}:"
    lines = [plan.fill(start), head, *(f"    {line}" for line in step), plan.fill(end)]
    return [line for line in lines if line]


def looped(start: str, *step: str, end: str = "return $r") -> Style:
    """The style of a loop with an accumulator."""
    return lambda rng, plan: loop(rng, plan, start, list(step), end)


def called(template: str) -> Style:
    """One `return` around a comprehension: `$V` its inside, `$L` a list, `$G` a generator of it, `$C` its clause."""

    def style(rng: random.Random, plan: Plan) -> list[str]:
        code = pieces(rng, plan)
        values = values_of(plan, code)
        generator = values if values == code.source else f"({values})"
        more = {"V": values, "G": generator, "L": listed(plan, code), "C": code.clause, "S": code.source}
        return [plan.fill(template, t=code.test, **more)]

    return style


def in_two_steps(*ends: str) -> Style:
    """A list of the wanted values in a variable `$c`, then the rest."""

    def style(rng: random.Random, plan: Plan) -> list[str]:
        made = listed(plan, pieces(rng, plan))
        return [f"{plan.chosen} = {made}", *(plan.fill(end, c=plan.chosen) for end in ends)]

    return style


def tested(rng: random.Random, plan: Plan, when: str, otherwise: str, negated: bool) -> list[str]:
    code = pieces(rng, plan)
    head = f"for {plan.variable} in {code.source}:"
    return [head, f"    if {code.negated if negated else code.test}:", f"        return {when}", f"return {otherwise}"]


def extreme(sign: str) -> Style:
    """The largest (">") or smallest ("<") by a loop; a changed element gets a name of its own first."""

    def style(rng: random.Random, plan: Plan) -> list[str]:
        changed = plan.change.key != "same"
        seen = "current" if changed else "$x"
        step = ["current = $v"] if changed else []
        step += [f"if best is None or {seen} {sign} best:", f"    best = {seen}"]
        return loop(rng, plan, "best = None", step, "return best")

    return style


def by_length(sign: str) -> Style:
    return looped("best = None", f"if best is None or len($x) {sign} len(best):", "    best = $x", end="return best")


STYLES: dict[str, tuple[Style, ...]] = {
    "sum": (looped("$r = 0", "$r += $v"), called("return sum($V)"), in_two_steps("return sum($c)")),
    "product": (
        looped("$r = 1", "$r *= $v"),
        in_two_steps("$r = 1", "for $x in $c:", "    $r *= $x", "return $r"),
    ),
    "count": (
        looped("$r = 0", "$r += 1"),
        called("return sum(1 $C)"),
        called("return len($L)"),
        in_two_steps("return len($c)"),
    ),
    "list": (looped("$r = []", "$r.append($v)"), called("return $L"), in_two_steps("return $c")),
    "sorted": (
        looped("$r = []", "$r.append($v)", end="return sorted($r)"),
        called("return sorted($V)"),
        in_two_steps("$c.sort()", "return $c"),
    ),
    "set": (
        looped("$r = set()", "$r.add($v)"),
        called("return set($V)"),
        in_two_steps("return set($c)"),
    ),
    "largest": (extreme(">"), called("return max($G, default=None)"), in_two_steps("return max($c) if $c else None")),
    "smallest": (extreme("<"), called("return min($G, default=None)"), in_two_steps("return min($c) if $c else None")),
    "first": (
        looped("", "return $v", end="return None"),
        called("return next(($V), None)"),
        in_two_steps("return $c[0] if $c else None"),
    ),
    "last": (looped("$r = None", "$r = $v"), in_two_steps("return $c[-1] if $c else None")),
    "longest": (
        by_length(">"),
        called("return max($G, key=len, default=None)"),
        in_two_steps("if not $c:", "    return None", "return max($c, key=len)"),
    ),
    "shortest": (
        by_length("<"),
        called("return min($G, key=len, default=None)"),
        in_two_steps("if not $c:", "    return None", "return min($c, key=len)"),
    ),
    "words": (
        looped("$r = []", "$r.append($v)", end='return " ".join($r)'),
        called('return " ".join($V)'),
        in_two_steps('return " ".join($c)'),
    ),
    "text": (
        looped('$r = ""', "$r += $v"),
        called('return "".join($V)'),
        in_two_steps('return "".join($c)'),
    ),
    "any": (
        lambda rng, plan: tested(rng, plan, "True", "False", negated=False),
        called("return any($t for $x in $S)"),
    ),
    "all": (
        lambda rng, plan: tested(rng, plan, "False", "True", negated=True),
        called("return all($t for $x in $S)"),
    ),
}
