"""Execution strategies of a search (SEED, Figure 1): how the texts of jobs share the models.

A strategy changes times, never texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from leapdecode.core import ForwardEvent, Request, SamplingParams
from leapdecode.core import Sequence as TokenSequence
from leapdecode.errors import OptionError, UnknownName, with_suggestions
from leapdecode.model.embedded import trained_on_tasks
from leapdecode.plugins import parse_fields
from leapdecode.reasoning.jobs import Ask, Generated, Job

if TYPE_CHECKING:
    from leapdecode.engine.schedulers.base import Scheduler
    from leapdecode.llm import LLM
    from leapdecode.llm.prompts import Message
    from leapdecode.llm.result import Result
    from leapdecode.llm.run import Run

T = TypeVar("T")
PLAIN = "autoregressive"
BETWEEN = "\n\n"  # ends a worked example, and what follows them, in a prompt that is no chat
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


@dataclass(frozen=True)
class Execution:
    """A strategy with all its options.

    Attributes:
        method: what guesses, with its `options`; plain decoding where the strategy guesses nothing.
    """

    scheduler: Scheduler
    method: str
    options: Mapping[str, Any]


def parse_strategy(
    spec: str, batch_size: int, method: str, options: Mapping[str, Any] | None = None
) -> Execution:
    """A strategy as it is written: its name, then options of its scheduler and of its method.

    "scheduled:verify=1", "serial-speculative:replacement=true",
    "batched-speculative:method=lookahead:window=5".

    Args:
        spec: the strategy as it is written.
        batch_size: texts that are decoded at a time, where it batches or schedules.
        method: what guesses where `spec` names no method, with its `options`, which those of `spec`
            override.

    Raises `UnknownName` with suggestions, or `OptionError` for a value that is not taken.
    """
    from leapdecode.engine import find_scheduler, make_scheduler
    from leapdecode.methods import find, make

    kind = find_strategy(spec)
    pairs = spec.split(":")[1:]
    methods = [pair.partition("=")[2] for pair in pairs if pair.startswith("method=")]
    guessing = methods[-1] if methods else method
    parameters = set(inspect.signature(find_scheduler(kind.scheduler)).parameters) - {"batch_size"}
    method_options = find(guessing).options() if kind.speculative else ()
    known = parameters | {field.name for field in method_options}
    if kind.speculative:
        known.add("method")
    for pair in pairs:
        key, equals, _ = pair.partition("=")
        if not equals:
            raise OptionError(f"strategy {spec!r}: {pair!r} is not KEY=VALUE")
        if key not in known:
            message = f"strategy {spec!r} has no option {key!r}"
            raise UnknownName(with_suggestions(message, key, known))
    scheduling = [pair for pair in pairs if pair.partition("=")[0] in parameters]
    rest = [pair for pair in pairs if pair not in scheduling and not pair.startswith("method=")]
    size = 1 if kind.scheduler == "single" else batch_size
    scheduler = make_scheduler(":".join([kind.scheduler, *scheduling]), size)
    if not kind.speculative:
        return Execution(scheduler, PLAIN, {})
    usual = dict(options or {}) if guessing == method else {}
    taken = usual | parse_fields(guessing, method_options, rest)
    make(guessing, taken)
    return Execution(scheduler, guessing, taken)


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
        strategy: a strategy, perhaps with options as `parse_strategy` reads them.
        method: what guesses, where the strategy is speculative, with its options by name; by
            default `multi_candidate` with the paper's k_config (2,2,1), `auto` without a draft.
        batch_size: texts that are decoded at a time, where the strategy batches or schedules.
        verification: "seeded" or "rejection".
        budget: most rows of a step per text, as in `LLM.generate`.
        max_tokens: most tokens of a text, where an ask allows more.
        chat: whether a prompt is a message of a user to whom the model replies, by its chat
            template; by default where the tokenizer has a template, but for the embedded pair.

    Attributes:
        instructs: see `Driver`; of all models but the embedded pair.

    Raises what is wrong with the arguments (`OptionError`, `UnknownName`), some at the first text.
    """

    def __init__(
        self,
        llm: LLM,
        sampling: SamplingParams,
        strategy: str = "serial",
        method: str | None = None,
        batch_size: int = 8,
        verification: str = "seeded",
        budget: int | str | None = "auto",
        max_tokens: int | None = None,
        chat: bool | None = None,
        **options: Any,
    ) -> None:
        from leapdecode.llm.prompts import has_template

        self.llm, self.sampling, self.verification = llm, sampling, verification
        self.budget = budget
        self.max_tokens = max_tokens
        guessing = method or ("auto" if llm.draft is None else "multi_candidate")
        execution = parse_strategy(strategy, batch_size, guessing, options)
        self.scheduler = execution.scheduler
        self.method = execution.method
        self.options = dict(execution.options)
        self.instructs = not trained_on_tasks(llm.tokenizer)
        self.chat = self.instructs and has_template(llm.tokenizer) if chat is None else chat
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

        tokens = ask.max_tokens if self.max_tokens is None else min(ask.max_tokens, self.max_tokens)
        stop = [*ask.stop, BETWEEN] if ask.examples and not self.chat else list(ask.stop)
        sampling = replace(self.sampling, max_tokens=tokens, stop=stop)
        options = self.options if ask.method is None else {}
        (run,) = runs_of(
            self.llm, [self._prompt(ask)], sampling, ask.method or self.method,
            verification=self.verification, budget=self.budget, stream=ask.stream, **options,
        )  # fmt: skip
        if ask.ends is not None:
            run.request = ended_by(run.request, ask.ends)
        return run

    def _prompt(self, ask: Ask) -> str | list[int] | list[Message]:
        """An ask's prompt as the model reads it: messages of a chat, a text, or token ids."""
        from leapdecode.llm.prompts import messages_of

        if not isinstance(ask.prompt, str):
            return ask.prompt
        if not self.chat:
            shown = [f"{prompt}{reply}{BETWEEN}" for prompt, reply in ask.examples]
            return "".join([*shown, ask.prompt])
        messages: list[Message] = []
        for prompt, reply in ask.examples:
            messages += [*messages_of(prompt), {"role": "assistant", "content": reply.strip()}]
        messages += messages_of(ask.prompt.removesuffix(ask.opening))
        if ask.opening:
            messages.append({"role": "assistant", "content": ask.opening.strip()})
        return messages


def ended_by(request: Request, ends: Callable[[Sequence[int]], bool]) -> Request:
    """A request whose text ends where `ends` says so of its generated tokens, too."""
    on_token = request.on_token

    def stops(sequence: TokenSequence, token: int) -> bool:
        stopped = on_token is not None and on_token(sequence, token)
        return stopped or ends(sequence.tokens[sequence.prompt_length :])

    return replace(request, on_token=stops)


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
