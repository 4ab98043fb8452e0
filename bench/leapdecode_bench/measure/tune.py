"""The best options of a method for a model, a task and this machine, one option after the other.

Ouroboros's Algorithm 1 (Zhao et al. 2024, appendix B.2), by paired time: the best gamma at first
guesses of the others, then the best window at that gamma, then the best phrase length. Here for
every method whose options name values to try.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leapdecode.core import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.methods.registry import find, make
from leapdecode_bench.measure.bench import Bench, Workload
from leapdecode_bench.measure.contenders import Contender, Ours
from leapdecode_bench.measure.records import BASELINE, Record
from leapdecode_bench.measure.summary import forward_counts, speed

if TYPE_CHECKING:
    from leapdecode.llm import LLM


@dataclass
class Trial:
    """One value of one option, with the others at their best so far.

    `speedup` is over plain decoding, `gain` over the option's first value: medians of ratios paired
    by prompt. Tasks that differ a lot in their speed-up hardly differ in the gain, so it decides.
    """

    option: str
    value: Any
    speedup: float
    speedup_interval: list[float]
    gain: float
    tokens_per_forward: float
    unexplained: int


@dataclass
class Search:
    """A search under way; `run` yields after every unit, and fills `trials` and `best`."""

    llm: LLM
    method: str
    workloads: list[Workload]
    sampling: SamplingParams
    options: dict[str, Any] = field(default_factory=dict)  # what is given stays as it is
    rounds: int = 1
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = values_to_try(self.method, self.options)
        self.best: dict[str, Any] = dict(self.options)

    @property
    def total(self) -> int:
        """How many rounds `run` will yield."""
        return (
            len(self.values)
            * self.rounds
            * sum(len(workload.prompts) for workload in self.workloads)
        )

    def run(self) -> Iterator[None]:
        """Option by option; of values with no unexplained text that of the greatest gain stays."""
        for name, values in self.values.items():
            tried: list[tuple[Any, Contender]] = [
                (value, Ours(self.llm, self.method, self.best | {name: value}))
                for value in values
                if possible(self.method, self.best | {name: value})
            ]
            contenders = [Ours(self.llm, BASELINE), *(contender for _, contender in tried)]
            records: list[Record] = []
            bench = Bench(self.llm, contenders, self.workloads, self.sampling, self.rounds)
            for round_records in bench.run(set()):
                records += round_records
                yield
            groups = [
                [record for record in records if record.contender == label]
                for label in (trial.label for trial in contenders)
            ]
            new = [
                trial(name, value, trial_records, plain=groups[0], first=groups[1])
                for (value, _), trial_records in zip(tried, groups[1:], strict=True)
            ]
            self.trials += new
            self.best[name] = max(new, key=lambda trial: (not trial.unexplained, trial.gain)).value


def possible(method: str, options: dict[str, Any]) -> bool:
    """Whether the options go together."""
    try:
        make_with(method, options)
    except OptionError:
        return False
    return True


def make_with(method: str, options: dict[str, Any]) -> None:
    """Make the method to check its options; a token budget is `generate`'s, not the method's."""
    make(method, {key: value for key, value in options.items() if key != "budget"})


def values_to_try(method: str, options: dict[str, Any]) -> dict[str, list[Any]]:
    """Per option its default and the values that its method names.

    Raises `OptionError` where there is none.
    """
    kind = find(method)
    make_with(method, options)
    values = {
        option.name: list(dict.fromkeys([option.default, *option.metadata["search"]]))
        for option in kind.options()
        if option.metadata["search"] and option.name not in options
    }
    if not values:
        raise OptionError(f"method {method!r} has no option left to tune")
    return values


def trial(
    name: str,
    value: Any,
    records: list[Record],
    plain: list[Record],
    first: list[Record],
) -> Trial:
    """The figures of one value; prompts of all tasks have equal weight."""
    pairs = dict.fromkeys((record.task, record.unit) for record in plain)
    units = {pair: number for number, pair in enumerate(pairs)}
    numbered = [_moved(record, units) for record in records]
    over_plain = speed(numbered, [_moved(record, units) for record in plain])
    over_first = speed(numbered, [_moved(record, units) for record in first])
    return Trial(
        name,
        value,
        over_plain["speedup"],
        over_plain["speedup_interval"],
        over_first["speedup"],
        forward_counts(records)["tokens_per_forward"] or 0.0,
        sum(record.verdicts[2] for record in records),
    )


def _moved(record: Record, units: dict[tuple[str, int], int]) -> Record:
    """The record with a unit number that is unique over all tasks."""
    return Record(**{**vars(record), "unit": units[record.task, record.unit]})
