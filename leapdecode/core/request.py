"""What a caller asks of the engine, and what it is told."""

import itertools
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from leapdecode.core.logprobs import TokenLogprobs
from leapdecode.core.sampling import SamplingParams
from leapdecode.core.sequence import Sequence
from leapdecode.core.stats import Step

_ids = itertools.count()


@dataclass(frozen=True, eq=False)
class Request:
    """One text to decode: a value, complete when it is added to an engine.

    Attributes:
        prompt_ids: token ids of the prompt, at least one.
        sampling: how tokens are chosen and when the text ends.
        method: a method's name, or a configured method, of which the request gets a copy.
        options: the method's options by name, where `method` is a name.
        verification: "seeded" (the text of plain decoding) or "rejection" (its distribution).
        stream: logical id of the random stream; texts of equal seed and stream are equal whatever
            else runs.
        end_tokens: ids that end the text, besides `sampling.stop_token_ids`.
        budget: most tokens that a forward may evaluate for this request; "auto": as many as pay by
            what rows cost here (under the rejection verifier, whose draws depend on the guesses,
            for the method `auto` alone); None or "none": all.
        pool: n-grams that the method starts from and adds to, for methods that take one.
        store: earlier texts that the method guesses from, for methods that take one; where this
            text ends by itself, it is kept there.
        cache_salt: texts take over cached keys and values of texts with the same salt alone, so
            that nobody learns from times and counts how others' prompts begin.
        on_token: called with (sequence, token) for every accepted token; True ends the text. What
            it raises ends this request alone.
        id: what the engine calls the request.
    """

    prompt_ids: list[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    method: Any = "autoregressive"
    options: Mapping[str, Any] = field(default_factory=dict)
    verification: str = "seeded"
    stream: Hashable = 0
    end_tokens: frozenset[int] = frozenset()
    budget: int | str | None = "auto"
    pool: Any = None
    store: Any = None
    cache_salt: str = ""
    on_token: Callable[[Sequence, int], bool] | None = None
    watch: Callable[[Sequence, Any, Any, Any], None] | None = None
    id: int = field(default_factory=_ids.__next__)


@dataclass(frozen=True, slots=True)
class StepEvent:
    """What became of one request in a step of the engine.

    Attributes:
        request_id: whose it is.
        step: the tokens that were accepted, with where they were guessed; None where the request
            only ended.
        finish_reason: "stop", "length" or "error" in a request's last event; else None. An abort
            has no event: whoever aborts a request knows.
        logprobs: one per token of the step, where the request asks for them.
    """

    request_id: int
    step: Step | None
    finish_reason: str | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ForwardEvent:
    """One forward that an engine ran, for traces: which model, for which requests, and how many
    tokens of each.

    Attributes:
        prefill: whether it evaluated missing text alone.
        seconds: what the forward took.
        began: when the work on it began, by `time.perf_counter`.
        ended: when its results were there, other forwards of missing text before it included.
        sampled: seconds behind that in which tokens were chosen at its nodes.
        waited: per request, seconds from its asking to `began`.
    """

    model: str
    request_ids: list[int]
    num_tokens: list[int]
    prefill: bool
    seconds: float
    began: float = 0.0
    ended: float = 0.0
    sampled: float = 0.0
    waited: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Output:
    """A finished request.

    Attributes:
        request: what was asked for.
        sequence: the text with its statistics, steps, finish reason and error.
        method: the name of the method that decoded it, `options` those it had.
        exact: whether it was decoded exactly.
        artifacts: what the method kept for the caller, by name.
    """

    request: Request
    sequence: Sequence
    method: str
    options: dict[str, Any]
    exact: bool
    artifacts: dict[str, Any]
