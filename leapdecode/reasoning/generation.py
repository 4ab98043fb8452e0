"""What a search asks of a model, and the plainest way to have it generated.

A `Job` is a coroutine: it yields what it asks for and is sent what was generated. A driver may run
the asks of all jobs at once, in any order, because a text depends on (seed, stream, prompt) alone.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from leapdecode.core import SamplingParams

if TYPE_CHECKING:
    from leapdecode.llm import LLM

T = TypeVar("T")
Part = Literal["thought", "evaluation", "answer"]


@dataclass(frozen=True)
class Ask:
    """One text that a model is to generate.

    Attributes:
        prompt: what the model reads.
        stream: names the noise, ("thought", (0, 2), "sub_question") for one.
        part: what the text is for.
        max_tokens: most tokens to generate.
        stop: the text ends before the first of these strings.
    """

    prompt: str
    stream: Hashable
    part: Part
    max_tokens: int
    stop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Generated:
    """A generated text, without its stop string; it ended by "stop" or "length"."""

    text: str
    finish_reason: str
    num_tokens: int


Job: TypeAlias = Generator[Ask, Generated, T]


class Driver(Protocol):
    """Has the asks of jobs generated."""

    def run(self, jobs: Sequence[Job[T]]) -> list[T]:
        """Run all jobs to their ends; their results, in the order of the jobs."""
        ...


class Serial:
    """One text after the other: the first ask of every job, then their second ones, and so on.

    Args:
        llm: the model.
        sampling: how tokens are chosen; an ask has its own `max_tokens` and `stop`.
        method: how texts are decoded, with its options by name.
    """

    def __init__(
        self,
        llm: LLM,
        sampling: SamplingParams,
        method: str = "autoregressive",
        **options: Any,
    ) -> None:
        self.llm, self.sampling, self.method, self.options = llm, sampling, method, options

    def run(self, jobs: Sequence[Job[T]]) -> list[T]:
        """Run all jobs to their ends; their results, in the order of the jobs."""
        results: dict[int, T] = {}
        answers: dict[int, Generated | None] = dict.fromkeys(range(len(jobs)))
        while answers:
            for number in list(answers):
                try:
                    ask = _resume(jobs[number], answers[number])
                except StopIteration as ended:
                    results[number] = ended.value
                    del answers[number]
                else:
                    answers[number] = self._generate(ask)
        return [results[number] for number in range(len(jobs))]

    def _generate(self, ask: Ask) -> Generated:
        sampling = replace(self.sampling, max_tokens=ask.max_tokens, stop=list(ask.stop))
        result = self.llm.generate(
            ask.prompt, sampling=sampling, stream=ask.stream, method=self.method, **self.options
        )
        return Generated(result.text, result.finish_reason, len(result.token_ids))


def _resume(job: Job[T], answer: Generated | None) -> Ask:
    """The job's next ask; raises `StopIteration` with its result where it ends."""
    return next(job) if answer is None else job.send(answer)
