"""The bench: every contender on every prompt, in turn with plain decoding, one record per generation.

A *unit* is what is decoded together: one prompt, or a batch of them. In a round every contender decodes the same unit
once, plain decoding among them, in an order drawn for the round. A contender's speed-up in a round is its tokens per
second over those of plain decoding in that round.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.llm import LLM
from leapdecode.measure.audit import explain
from leapdecode.measure.contenders import Contender, Ours, Outcome
from leapdecode.measure.loops import repeated_share
from leapdecode.measure.memory import PeakMemory

BASELINE = "autoregressive"
WARM_TOKENS = 16
COUNTS = ("target_forwards", "prefill_forwards", "target_rows", "draft_forwards", "draft_rows", "matched_tokens")
TIMES = ("forward", "draft", "propose", "verify", "commit")


def no_score(number: int, text: str) -> float | None:
    """For texts without a checker."""
    return None


@dataclass
class Workload:
    """Prompts of one task as ids, and how texts are scored (None: no checker).

    `sampling` replaces the bench's own, for the negative control. What learns from text to text decodes the prompts of
    `warmup` first, unmeasured.
    """

    name: str
    prompts: list[list[int]]
    score: Callable[[int, str], float | None] = no_score
    sampling: SamplingParams | None = None
    warmup: list[list[int]] = field(default_factory=list)


@dataclass
class Record:
    """One contender's work on one unit in one round; sums over the unit's texts unless said otherwise.

    Attributes:
        forwards, rows: by name, as in `core.Stats`; names that a contender cannot count are missing.
        accepted: accepted length -> how often.
        composition: seconds by part of the engine.
        first_token, first_tokens: seconds to the first token, mean over the unit; tokens that came with it.
        repeated: largest share of repeated 4-grams among the unit's texts.
        verdicts: [identical, tie-explained, unexplained] texts, against plain decoding in the same round.
        exact: whether the texts were decoded exactly, so that only identical ones pass.
        margins: per text that differs, (largest margin by which a plain forward prefers another token, tau).
        audit_seconds: time that explaining took, which is nobody's decoding.
        scores: per text, None where the task has no checker.
    """

    task: str
    contender: str
    unit: int
    round: int
    texts: int
    prompt_tokens: int
    tokens: int
    seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    composition: dict[str, float] = field(default_factory=dict)
    first_token: float | None = None
    first_tokens: int = 0
    peak_memory: int = 0
    repeated: float = 0.0
    verdicts: list[int] = field(default_factory=lambda: [0, 0, 0])
    exact: bool = False
    margins: list[list[float]] = field(default_factory=list)
    audit_seconds: float = 0.0
    scores: list[float | None] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, int, int]:
        return self.task, self.contender, self.unit, self.round


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

    @property
    def total(self) -> int:
        """How many records there will be."""
        return sum(len(self._units(work)) for work in self.workloads) * self.rounds * len(self.contenders)

    def _units(self, work: Workload) -> list[range]:
        count = len(work.prompts)
        return [range(at, min(at + self.batch_size, count)) for at in range(0, count, self.batch_size)]

    def run(self, done: set[tuple[str, str, int, int]]) -> Iterator[list[Record]]:
        """Measure round by round, leaving out rounds of which `done` holds every record's key.

        Yields an empty list for each step of a warm-up, and before a round's texts are compared.
        """
        for work in self.workloads:
            turns = [(unit, turn) for turn in range(self.rounds) for unit in range(len(self._units(work)))]
            if all(self._keys(work, *turn) <= done for turn in turns):
                continue
            sampling, warm = work.sampling or self.sampling, set[int]()
            for turn in range(self.rounds):
                for numbers in self._units(work):
                    if len(numbers) not in warm:  # a smaller last batch has a row-cost curve of its own
                        self._warm_up(work, numbers, sampling)
                        warm.add(len(numbers))
                for llm in {id(one.llm): one.llm for one in self.contenders if isinstance(one, Ours)}.values():
                    llm.shared.forget()  # budgets and pools learn within a round over a task's prompts, and not beyond
                missing = [(unit, numbers) for unit, numbers in enumerate(self._units(work))
                           if not self._keys(work, unit, turn) <= done]  # fmt: skip
                if missing:
                    yield from self._teach(work, sampling)
                for unit, numbers in missing:
                    self.doing = work.name
                    yield from self._round(work, unit, numbers, turn, sampling)

    def _keys(self, work: Workload, unit: int, turn: int) -> set[tuple[str, str, int, int]]:
        return {(work.name, one.label, unit, turn) for one in self.contenders}

    def _warm_up(self, work: Workload, numbers: range, sampling: SamplingParams) -> None:
        short = replace(sampling, max_tokens=min(WARM_TOKENS, sampling.max_tokens))
        for contender in self.contenders:
            contender.decode([work.prompts[number] for number in numbers], short, self.batch_size)

    def _teach(self, work: Workload, sampling: SamplingParams) -> Iterator[list[Record]]:
        """Let those that learn decode the warm-up prompts; an empty list per step of it, so that one sees it go on."""
        for at in range(0, len(work.warmup), self.batch_size):
            for contender in self.contenders:
                if contender.learns:
                    contender.decode(work.warmup[at : at + self.batch_size], sampling, self.batch_size)
            self.doing = "warming up"
            yield []

    def _round(
        self, work: Workload, unit: int, numbers: range, turn: int, sampling: SamplingParams
    ) -> Iterator[list[Record]]:
        prompts = [work.prompts[number] for number in numbers]
        order = random.Random(f"{work.name}/{unit}/{turn}").sample(range(len(self.contenders)), len(self.contenders))
        measured: dict[str, tuple[list[Outcome], float, int]] = {}
        for contender in [self.contenders[place] for place in order]:
            with PeakMemory(self.llm.runner.device) as peak:
                began = time.perf_counter()
                outcomes = contender.decode(prompts, sampling, self.batch_size)
                seconds = time.perf_counter() - began
            measured[contender.label] = outcomes, seconds, peak.bytes
        plain, records = measured[BASELINE][0], []
        if any(_differ(outcomes, plain) for outcomes, _, _ in measured.values()):
            self.doing = "comparing texts"
            yield []
        drawn = {one.label for one in self.contenders if one.options.get("verification") == "rejection"}
        shown = sum(map(len, prompts))
        for label, (outcomes, seconds, memory) in measured.items():
            record = Record(work.name, label, unit, turn, len(outcomes), shown, 0, seconds, peak_memory=memory)
            for number, outcome, reference in zip(numbers, outcomes, plain, strict=True):
                enter(record, outcome)
                record.scores.append(work.score(number, outcome.text))
                if sampling.greedy or label not in drawn:
                    self._judge(record, work.prompts[number], outcome, reference, sampling)
            if record.composition:
                record.composition["other"] = seconds - sum(record.composition.values())
            records.append(record)
        yield records

    def _judge(
        self, record: Record, prompt: list[int], outcome: Outcome, reference: Outcome, sampling: SamplingParams
    ) -> None:
        """Count the text as identical to plain decoding's, explained by a near-tie, or unexplained.

        Sampled texts of a peer or of the rejection verifier are not counted: they are other draws of the same law.
        """
        said, result = outcome.token_ids, outcome.result
        if result is None and not sampling.greedy:
            return
        stopped = result.finish_reason == "stop" if result else bool(said) and said[-1] in self.llm.end_tokens
        exact, began = result is not None and result.exact, time.perf_counter()
        found = explain(self.llm, prompt, said, reference.token_ids, sampling, stopped, exact=exact)
        record.audit_seconds += time.perf_counter() - began
        record.exact = exact
        if not found.identical:
            record.margins.append([found.worst_margin, found.tau])
        for place, verdict in enumerate((found.identical, found.tie_explained, found.unexplained)):
            record.verdicts[place] += verdict


def _differ(outcomes: list[Outcome], plain: list[Outcome]) -> bool:
    """Whether a text is to be explained, which takes time that is nobody's decoding."""
    return any(one.token_ids != other.token_ids for one, other in zip(outcomes, plain, strict=True))


def enter(record: Record, outcome: Outcome) -> None:
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
