"""Jobs: what a search or FastCoT has a model generate.

A `Job` is a coroutine: it yields an `Ask` and is sent the `Generated` text. A driver may run the
asks of all jobs at once, in any order, because a text depends on (seed, stream, prompt) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from leapdecode.methods.base import Method

T = TypeVar("T")
Examples: TypeAlias = tuple[tuple[str, str], ...]  # prompts with replies
Part = Literal["thought", "evaluation", "rationale", "answer"]


@dataclass(frozen=True)
class Ask:
    """A text that a model is to generate.

    Attributes:
        prompt: what the model reads, as text or as token ids.
        stream: names the noise, for example ("thought", (0, 2), "sub_question").
        part: what the text is for.
        max_tokens: most tokens to generate.
        stop: the text ends before the first of these strings.
        method: what decodes the text, where it is not the driver's own.
        opening: the end of the prompt where that is the beginning of the reply.
        examples: prompts with replies that stand before a prompt that is text.
        ends: called with the generated token ids after each of them; True ends the text.
    """

    prompt: str | list[int]
    stream: Hashable
    part: Part
    max_tokens: int
    stop: tuple[str, ...] = ()
    method: Method | None = None
    opening: str = ""
    examples: Examples = ()
    ends: Callable[[Sequence[int]], bool] | None = None


@dataclass(frozen=True)
class Generated:
    """A generated text, without its stop string.

    Attributes:
        finish_reason: "stop" or "length"; "aborted" where its method gave it up.
        token_ids: those of the text, of a stop string too.
        artifacts: what its method kept for the caller, by name.
        forwards: target forwards that gave tokens.
    """

    text: str
    finish_reason: str
    num_tokens: int
    token_ids: list[int] = field(default_factory=list)
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    forwards: int = 0


# sent None at first, as every generator
Job: TypeAlias = Generator[Ask, Generated, T]


class Driver(Protocol):
    """Has the asks of jobs generated.

    Attributes:
        instructs: whether the model needs prompts that say how a reply is to be written, see
            `TreeTask.with_instructions`.
    """

    instructs: bool

    def run(self, jobs: Sequence[Job[T]]) -> list[T]:
        """Run all jobs to their ends; their results, in the order of the jobs."""
        ...
