"""Execution strategies of a search (SEED, Figure 1): how the texts of jobs share the models.

A strategy changes times, never texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from leapdecode.core import ForwardEvent, SamplingParams
from leapdecode.errors import UnknownName, with_suggestions
from leapdecode.reasoning.jobs import Ask, Generated, Job

if TYPE_CHECKING:
    from leapdecode.engine.schedulers.base import Scheduler
    from leapdecode.llm import LLM
    from leapdecode.llm.result import Result
    from leapdecode.llm.run import Run

T = TypeVar("T")
Span = tuple[str, str, float, float, list[int]]  # model, kind, start and end in seconds, requests


@dataclass(frozen=True)
class Strategy:
    """How the texts of a tree share the models.

    Attributes:
        scheduler: the name of the engine's scheduler.
        speculative: whether a method guesses; else decoding is plain.
    """

    scheduler: str
    speculative: bool

    def scheduling(self, spec: str, batch_size: int) -> tuple[Scheduler, str | None]:
        """The scheduler with the options of `spec`, "scheduled:verify=1" say, and the method that
        `spec` names, if it does.
        """
        from leapdecode.engine import make_scheduler
        from leapdecode.methods import find

        options = spec.split(":")[1:]
        methods = [
            option.removeprefix("method=") for option in options if option.startswith("method=")
        ]
        for method in methods:
            find(method)
        others = [option for option in options if not option.startswith("method=")]
        size = 1 if self.scheduler == "single" else batch_size
        scheduler = make_scheduler(":".join([self.scheduler, *others]), size)
        return scheduler, methods[-1] if methods and self.speculative else None


STRATEGIES: Mapping[str, Strategy] = {
    "serial": Strategy("single", False),  # Figure 1a
    "serial-speculative": Strategy("single", True),  # 1b
    "scheduled": Strategy("scheduled", True),  # 1c
    "batched": Strategy("batched", False),  # 1d
    "batched-speculative": Strategy("batched", True),  # beyond the paper
}


def find_strategy(spec: str) -> Strategy:
    """The strategy named by `spec`, a name perhaps with options; raises `UnknownName` with
    suggestions.
    """
    name = spec.split(":")[0]
    if name not in STRATEGIES:
        raise UnknownName(with_suggestions(f"unknown strategy {name!r}", name, STRATEGIES))
    return STRATEGIES[name]


@dataclass
class Record:
    """What an executor has generated.

    Attributes:
        asks, results: every text, in the order in which they ended.
        forwards: every forward.
        runs: per call of `run` and per job, the indices of its texts in `results`.
    """

    asks: list[Ask] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    forwards: list[ForwardEvent] = field(default_factory=list)
    runs: list[list[list[int]]] = field(default_factory=list)


class Executor:
    """Generates the asks of jobs on one engine, those of all jobs at a time.

    Args:
        llm: the models.
        sampling: how tokens are chosen; an ask has its own `max_tokens` and `stop`.
        strategy: a strategy's name, perhaps with options of its scheduler or another method:
            "scheduled:verify=1", "batched-speculative:method=auto".
        method: what guesses, where the strategy is speculative, with its options by name; by
            default `multi_candidate` with the paper's k_config (2,2,1), `auto` without a draft.
        batch_size: texts that are decoded at a time, where the strategy batches or schedules.
        verification: "seeded" or "rejection".

    Raises what is wrong with the arguments (`OptionError`, `UnknownName`) at the first text.
    """

    def __init__(
        self,
        llm: LLM,
        sampling: SamplingParams,
        strategy: str = "serial",
        method: str | None = None,
        batch_size: int = 8,
        verification: str = "seeded",
        **options: Any,
    ) -> None:
        self.llm, self.sampling, self.verification = llm, sampling, verification
        kind = find_strategy(strategy)
        self.scheduler, named_method = kind.scheduling(strategy, batch_size)
        self.method = "autoregressive"
        self.options: dict[str, Any] = {}
        if kind.speculative:
            default = method or ("auto" if llm.draft is None else "multi_candidate")
            self.method = named_method or default
            self.options = options if self.method == default else {}
        self.record = Record()

    def run(self, jobs: Sequence[Job[T]]) -> list[T]:
        """Run all jobs to their ends; their results, in the order of the jobs.

        Where a text fails, all others are given up and its error is raised.
        """
        from leapdecode.engine import Engine

        results: dict[int, T] = {}
        texts_of: list[list[int]] = [[] for _ in jobs]
        self.record.runs.append(texts_of)
        active: dict[int, tuple[int, Ask, Run]] = {}  # by request id
        with self.llm.lock:
            engine = Engine(
                self.llm.models, self.scheduler, self.llm.shared, self.record.forwards.append
            )

            def advance(number: int, generated: Generated | None) -> None:
                """Add the job's next ask to the engine, or keep its result."""
                try:
                    # None starts a generator
                    ask = jobs[number].send(generated)  # type: ignore[arg-type]
                except StopIteration as ended:
                    results[number] = ended.value
                    return
                run = self._run(ask)
                active[engine.add(run.request)] = number, ask, run

            try:
                for number in range(len(jobs)):
                    advance(number, None)
                while engine.busy:
                    for event in engine.step():
                        if event.finish_reason is None:
                            continue
                        number, ask, run = active.pop(event.request_id)
                        output = engine.result(event.request_id)
                        if output.sequence.error is not None:
                            raise output.sequence.error
                        result = run.result(output, self.llm.name)
                        texts_of[number].append(len(self.record.results))
                        self.record.asks.append(ask)
                        self.record.results.append(result)
                        advance(number, _generated(result))
            finally:
                engine.close()
                for job in jobs:
                    job.close()
        return [results[number] for number in range(len(jobs))]

    def _run(self, ask: Ask) -> Run:
        """The run of an ask's text on the engine."""
        from leapdecode.llm.run import runs_of

        sampling = replace(self.sampling, max_tokens=ask.max_tokens, stop=list(ask.stop))
        options = self.options if ask.method is None else {}
        (run,) = runs_of(
            self.llm, [ask.prompt], sampling, ask.method or self.method,
            verification=self.verification, stream=ask.stream, **options,
        )  # fmt: skip
        return run


def _generated(result: Result) -> Generated:
    """A text as it is sent to its job."""
    return Generated(
        result.text, result.finish_reason, len(result.token_ids), result.token_ids,
        result.artifacts, len(result.steps),
    )  # fmt: skip


def spans_of(forwards: Iterable[ForwardEvent], began: float) -> list[Span]:
    """Forwards, and the sampling behind the target's forwards, in seconds from `began` on."""
    spans = list[Span]()
    for event in forwards:
        kind = "prefill" if event.prefill else ("verify" if event.model == "target" else "draft")
        requests = list(event.request_ids)
        start = event.began - began
        end = event.ended - began
        spans.append((event.model, kind, start, end, requests))
        if event.model == "target" and event.sampled:
            spans.append((event.model, "sample", end, end + event.sampled, requests))
    return spans
