"""The bench: every contender on every prompt, in turn with plain decoding, a record per generation.

A *unit* is what is decoded together: one prompt, or a batch of them. In a round every contender
decodes the same unit once, plain decoding among them, in an order drawn for the round. A
contender's speed-up in a round is its tokens per second over those of plain decoding in that round.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from leapdecode.core import SamplingParams
from leapdecode.training.cleaning import repeated_share
from leapdecode_bench.measure.contenders import Contender, Ours, Outcome
from leapdecode_bench.measure.memory import PeakMemory
from leapdecode_bench.measure.records import BASELINE, COUNTS, TIMES, Record

if TYPE_CHECKING:
    from leapdecode.llm import LLM

WARM_TOKENS = 16
Key = tuple[str, str, int, int]  # of a record: task, contender, unit, round


class Turn(NamedTuple):
    """The place of a prompt in a public set: its question, turn, and the question's turns."""

    question: int | str
    category: str
    turn: int
    turns: int


def no_score(number: int, text: str) -> float | None:
    """For texts without a checker."""
    return None


@dataclass
class Workload:
    """Prompts of one task as ids, and how texts are scored (None: no checker).

    `sampling` replaces the bench's own, for the negative control and for stop strings of a set.
    `samplings` has one for each prompt of a mix whose tasks differ in it. Contenders that learn
    from earlier texts decode the prompts of `warmup` first, unmeasured. For a public set: `notes`
    say why rows were left out, `answers` is the format of kept answers, `turns` is the place of
    each prompt, and perplexity is measured on `passages`.
    """

    name: str
    prompts: list[list[int]]
    score: Callable[[int, str], float | None] = no_score
    sampling: SamplingParams | None = None
    warmup: list[list[int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    answers: str = ""
    turns: list[Turn] = field(default_factory=list)
    passages: list[str] = field(default_factory=list)
    samplings: list[SamplingParams] = field(default_factory=list)

    def sampling_of(self, number: int, usual: SamplingParams) -> SamplingParams:
        """How the text of a prompt is sampled, where `usual` is the bench's own sampling."""
        return self.samplings[number] if self.samplings else self.sampling or usual


# (workload, contender's label, number of the prompt, text, seconds that it took)
Keep = Callable[[Workload, str, int, Outcome, float], None]


@dataclass
class Bench:
    """What to measure; `run` yields the records of one round at a time."""

    llm: LLM
    contenders: Sequence[Contender]
    workloads: Sequence[Workload]
    sampling: SamplingParams
    rounds: int = 1
    batch_size: int = 1
    doing: str = ""  # for a progress bar; `run` yields whenever it changes
    keep: Keep | None = None  # is shown every text of the first round

    @property
    def keys(self) -> list[Key]:
        """The keys of all records."""
        return [
            (workload.name, contender.label, unit, turn)
            for workload in self.workloads
            for turn in range(self.rounds)
            for unit in range(len(self._units(workload)))
            for contender in self.contenders
        ]

    def part_of(self, key: Key) -> tuple[str, int]:
        """A task in one round, within which budgets and pools learn."""
        task, _, _, turn = key
        return task, turn

    def _units(self, workload: Workload) -> list[range]:
        """The numbers of the prompts of each unit, which are sampled alike."""
        units = list[range]()
        last_sampling = None
        for number in range(len(workload.prompts)):
            sampling = workload.sampling_of(number, self.sampling)
            if units and len(units[-1]) < self.batch_size and sampling == last_sampling:
                units[-1] = range(units[-1].start, number + 1)
            else:
                units.append(range(number, number + 1))
            last_sampling = sampling
        return units

    def _sampling(self, workload: Workload, numbers: range) -> SamplingParams:
        """How the texts of a unit are sampled."""
        return workload.sampling_of(numbers[0], self.sampling)

    def run(self, done: set[Key]) -> Iterator[list[Record]]:
        """Measure round by round, leaving out rounds of which `done` holds every record's key.

        Yields an empty list for each step of a warm-up, and before a round's texts are compared.
        Where processes share the model, all do what the first one's `done` lacks.
        """
        done = self.llm.ranks.agreed(done)
        for workload in self.workloads:
            if not any(self._missing(workload, turn, done) for turn in range(self.rounds)):
                continue
            warm = set[int]()
            for turn in range(self.rounds):
                for numbers in self._units(workload):
                    if len(numbers) not in warm:  # a smaller last batch has its own row costs
                        self._warm_up(workload, numbers, self._sampling(workload, numbers))
                        warm.add(len(numbers))
                self._forget()
                missing = self._missing(workload, turn, done)
                if missing:
                    yield from self._learn(workload, workload.sampling or self.sampling)
                for unit, numbers in missing:
                    self.doing = workload.name
                    sampling = self._sampling(workload, numbers)
                    yield from self._round(workload, unit, numbers, turn, sampling)

    def _missing(self, workload: Workload, turn: int, done: set[Key]) -> list[tuple[int, range]]:
        """The units of a round, with their numbers, that lack a contender's record."""
        return [
            (unit, numbers)
            for unit, numbers in enumerate(self._units(workload))
            if not {(workload.name, contender.label, unit, turn) for contender in self.contenders}
            <= done
        ]

    def _forget(self) -> None:
        """Reset budgets and pools: they learn over the prompts of a task in one round only."""
        ours = [contender.llm for contender in self.contenders if isinstance(contender, Ours)]
        for llm in {id(llm): llm for llm in ours}.values():
            llm.shared.forget()

    def _warm_up(self, workload: Workload, numbers: range, sampling: SamplingParams) -> None:
        short = replace(sampling, max_tokens=min(WARM_TOKENS, sampling.max_tokens))
        for contender in self.contenders:
            contender.decode(
                [workload.prompts[number] for number in numbers], short, self.batch_size
            )

    def _learn(self, workload: Workload, sampling: SamplingParams) -> Iterator[list[Record]]:
        """Decode the warm-up prompts by contenders that learn; an empty list for each batch."""
        for start in range(0, len(workload.warmup), self.batch_size):
            for contender in self.contenders:
                if contender.learns:
                    prompts = workload.warmup[start : start + self.batch_size]
                    contender.decode(prompts, sampling, self.batch_size)
            self.doing = "warming up"
            yield []

    def _round(
        self, workload: Workload, unit: int, numbers: range, turn: int, sampling: SamplingParams
    ) -> Iterator[list[Record]]:
        prompts = [workload.prompts[number] for number in numbers]
        count = len(self.contenders)
        order = random.Random(f"{workload.name}/{unit}/{turn}").sample(range(count), count)
        measured: dict[str, tuple[list[Outcome], float, int]] = {}
        for contender in [self.contenders[number] for number in order]:
            with PeakMemory(self.llm.runner.device) as peak:
                began = time.perf_counter()
                outcomes = contender.decode(prompts, sampling, self.batch_size)
                seconds = time.perf_counter() - began
            measured[contender.label] = outcomes, seconds, peak.bytes
        plain, records = measured[BASELINE][0], []
        if any(_differ(outcomes, plain) for outcomes, _, _ in measured.values()):
            self.doing = "comparing texts"
            yield []
        verification = {
            contender.label: contender.options.get("verification") for contender in self.contenders
        }
        prompt_tokens = sum(map(len, prompts))
        for label, (outcomes, seconds, memory) in measured.items():
            texts = len(outcomes)
            reused = sum(outcome.counts.get("reused_tokens") or 0 for outcome in outcomes)
            record = Record(
                workload.name, label, unit, turn, texts, prompt_tokens - reused, 0, seconds
            )
            record.peak_memory = memory
            for number, outcome, reference in zip(numbers, outcomes, plain, strict=True):
                add_outcome(record, outcome)
                record.scores.append(workload.score(number, outcome.text))
                if self.keep and turn == 0:
                    self.keep(workload, label, number, outcome, seconds / texts)
                if sampling.greedy or verification[label] != "rejection":
                    self._judge(record, workload.prompts[number], outcome, reference, sampling)
            if record.composition:
                record.composition["other"] = seconds - sum(record.composition.values())
            records.append(record)
        yield records

    def _judge(
        self,
        record: Record,
        prompt: list[int],
        outcome: Outcome,
        reference: Outcome,
        sampling: SamplingParams,
    ) -> None:
        """Count the text as identical to plain decoding's, explained by a near-tie, or unexplained.

        Sampled texts of a peer or of the rejection verifier are not counted: they are other draws
        of the same distribution. Neither are texts of other weights.
        """
        token_ids = outcome.token_ids
        result = outcome.result
        if not outcome.compared or (result is None and not sampling.greedy):
            return
        ended = bool(token_ids) and token_ids[-1] in self.llm.end_tokens
        stopped = result.finish_reason == "stop" if result else ended
        exact, began = result is not None and result.exact, time.perf_counter()
        from leapdecode.llm.audit import explain

        explanation = explain(
            self.llm, prompt, token_ids, reference.token_ids, sampling, stopped, exact=exact
        )
        record.audit_seconds += time.perf_counter() - began
        record.exact = exact
        if not explanation.identical:
            record.margins.append([explanation.worst_margin, explanation.tau])
        for number, verdict in enumerate(
            (explanation.identical, explanation.tie_explained, explanation.unexplained)
        ):
            record.verdicts[number] += verdict


def _differ(outcomes: list[Outcome], plain: list[Outcome]) -> bool:
    """Whether a text differs from plain decoding's and must be explained."""
    return any(
        outcome.compared and outcome.token_ids != reference.token_ids
        for outcome, reference in zip(outcomes, plain, strict=True)
    )


def add_outcome(record: Record, outcome: Outcome) -> None:
    """Add one text's counts and times to the unit's record."""
    counts: dict[str, Any] = outcome.counts
    record.tokens += len(outcome.token_ids)
    record.repeated = max(record.repeated, repeated_share(outcome.token_ids))
    for name in COUNTS:
        if name in counts:
            record.counts[name] = record.counts.get(name, 0) + counts[name]
    for length, times in Counter(counts.get("accepted_lengths", [])).items():
        record.accepted[str(length)] = record.accepted.get(str(length), 0) + times
    if outcome.result is None:
        return
    stats = outcome.result.stats
    record.first_token = (record.first_token or 0.0) + stats.prefill_seconds / record.texts
    record.first_tokens += len(outcome.result.steps[0].tokens)
    parts = {name: float(counts[f"{name}_seconds"]) for name in TIMES}
    for name, value in parts.items():
        record.composition[name] = record.composition.get(name, 0.0) + value
