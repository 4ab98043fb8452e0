"""What is compared: whole chains of thought, and ways to answer before their end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.methods import find
from leapdecode.reasoning.fastcot import Plan, plan_of
from leapdecode.reasoning.fastcot.answering import WINDOW

COT = "cot"
INEXACT = "cot-inexact"
FASTCOT = "fastcot"
DEFAULT = (
    "cot", "cot-inexact", "cot:auto", "fastcot", "fastcot-without-byproducts", "fastcot-exact-part",
    "fastcot-early", "fastcot-early:auto",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A way to answer.

    Attributes:
        method: decodes the rationale unless another is named; with `fixed` none may be named.
        bounded: whether the rationale is given up after a number of iterations.
        early: whether it is given up when the answer read beside it stays the same.
        glimpse: whether approximate tokens are shown.
        exact: False to decode without exactness where the model is decoded exactly.
    """

    method: str
    bounded: bool = False
    early: bool = False
    glimpse: bool = True
    fixed: bool = False
    exact: bool = True


KINDS: Mapping[str, Kind] = {
    "cot": Kind("autoregressive"),
    "cot-inexact": Kind("autoregressive", fixed=True, exact=False),
    "fastcot": Kind("jacobi", bounded=True),
    "fastcot-without-byproducts": Kind("autoregressive", bounded=True, glimpse=False, fixed=True),
    "fastcot-exact-part": Kind("jacobi", bounded=True, glimpse=False),
    "fastcot-early": Kind("jacobi", early=True),
}


@dataclass(frozen=True)
class ContenderSpec:
    """A contender as it was written: KIND, or KIND:METHOD with options of the method."""

    written: str
    kind: Kind
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bounding(self) -> str:
        """The method whose FastCoT sets the bound.

        Iterations mean more tokens under a better method, so each has its own bound. Plain
        decoding that is cut stops where FastCoT with Jacobi decoding stops.
        """
        return KINDS[FASTCOT].method if self.kind.fixed else self.method

    @property
    def bound_of(self) -> str:
        """`bounding` with its options: the key of its calibrated bound."""
        return ":".join((self.bounding, *(f"{key}={value}" for key, value in self.options.items())))


@dataclass(frozen=True)
class Contender:
    """One way to answer, with its bound or its number of readings.

    Attributes:
        name: as it was written.
        plan: how it answers.
        exact: False to decode without exactness where the model is decoded exactly.
    """

    name: str
    plan: Plan
    exact: bool = True

    @property
    def key(self) -> tuple[str, int | None, int, float]:
        """What its records are found by: name, bound, readings, confidence."""
        return self.name, self.plan.iterations, self.plan.unchanged, self.plan.confidence

    @property
    def label(self) -> str:
        """Its name in a progress bar and on plots."""
        return label_of(*self.key)


def label_of(name: str, bound: int | None, unchanged: int, confidence: float) -> str:
    """A contender in one line: "fastcot, 20 iterations"."""
    parts = [name]
    parts += [] if bound is None else [counted(bound, "iteration")]
    parts += [counted(unchanged, "reading")] if unchanged else []
    parts += [f"from {confidence:g} on"] if confidence else []
    return ", ".join(parts)


def counted(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def parse_contender(written: str) -> tuple[Kind, str, list[str]]:
    """Kind, method, and options as KEY=VALUE of a contender; raises `UnknownName`, `OptionError`.

    Where no method is named, the kind's own is meant.
    """
    name, *rest = written.split(":")
    if name not in KINDS:
        raise UnknownName(with_suggestions(f"unknown contender {name!r}", name, KINDS))
    kind = KINDS[name]
    if not rest:
        return kind, kind.method, []
    if kind.fixed:
        raise OptionError(f"{name} decodes by {kind.method}, so it takes no method: {written!r}")
    find(rest[0])
    return kind, rest[0], rest[1:]


def contenders(
    chosen: Sequence[ContenderSpec],
    bounds: Mapping[str, Sequence[int]] | Sequence[int],
    readings: Sequence[int] = (1,),
    confidences: Sequence[float] = (0.0,),
    window: int | str = WINDOW,
    **rationale: Any,
) -> list[Contender]:
    """Every contender with every bound, or with every number of readings and confidence.

    Bounds are those of all, or by `ContenderSpec.bound_of`; `rationale` says how long rationales
    are and where they end, as `Plan` takes it.
    """
    every = list[Contender]()
    for contender in chosen:
        glimpse = contender.kind.glimpse
        plan = plan_of(contender.method, window, contender.options, glimpse=glimpse, **rationale)
        plans = [plan]
        if contender.kind.bounded:
            limits = bounds[contender.bound_of] if isinstance(bounds, Mapping) else bounds
            plans = [plan.at(bound) for bound in limits]
        elif contender.kind.early:
            plans = [
                replace(plan, unchanged=count, confidence=share)
                for count in readings
                for share in confidences
            ]
        every += [Contender(contender.written, plan, contender.kind.exact) for plan in plans]
    return every
