"""What a search asks of a model.

A `Job` is a coroutine: it yields what it asks for and is sent what was generated. A driver may run
the asks of all jobs at once, in any order, because a text depends on (seed, stream, prompt) alone.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

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


def resume(job: Job[T], answer: Generated | None) -> Ask:
    """The job's next ask; raises `StopIteration` with its result where it ends."""
    return next(job) if answer is None else job.send(answer)
