"""A request under way."""

from dataclasses import dataclass, field, replace
from typing import Any

from leapdecode.core import Asked, Forward, ForwardResult, Request, Sequence, StepEvent
from leapdecode.engine.decoding import Decoding, decode
from leapdecode.methods.base import Method
from leapdecode.methods.context import MethodContext
from leapdecode.model.exactness import Exactness
from leapdecode.model.fingerprint import Fingerprint
from leapdecode.verify.sampler import Sampler


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """A request with its text, its method, and what it waits for.

    Attributes:
        context: what its method may use.
        decoding: the loop of its method.
        begun: whether the loop has run without an error, and with it the method's `begin`.
        pending: what the loop waits for; None once it has ended.
        answer: the result of the forward that it waited for, until the loop takes it.
        samplers: by model.
        num_steps, num_tokens: how many of the sequence's steps, and tokens, events have reported.
        asked_at: when it began to wait for its forward, by `time.perf_counter`.
        exactness: the target's, when it joined; None where nothing is claimed of its bits.
        fingerprint: the target's, when it joined.
        cramped: the rows that are known to be exact were too few for the window of its tree.
        recovered: a draft's cache was emptied once; what is not finite now is in the text itself.
    """

    request: Request
    sequence: Sequence
    method: Method
    context: MethodContext
    decoding: Decoding = field(init=False)
    begun: bool = False
    pending: Asked | None = None
    answer: ForwardResult | None = None
    samplers: dict[str, Sampler] = field(default_factory=dict)
    num_steps: int = 0
    num_tokens: int = 0
    asked_at: float = 0.0
    exactness: Exactness | None = None
    fingerprint: Fingerprint | None = None
    cramped: bool = False
    recovered: bool = False

    def __post_init__(self) -> None:
        self.decoding = decode(self.method, self.sequence, self.context)

    @property
    def id(self) -> int:
        return self.request.id

    @property
    def ended(self) -> bool:
        """Whether the text has ended, well or not."""
        return self.sequence.finish_reason is not None

    def news(self) -> list[StepEvent]:
        """Events of the steps since the last call, and of the request's end."""
        sequence, events = self.sequence, list[StepEvent]()
        for step in sequence.steps[self.num_steps :]:
            first = self.num_tokens
            self.num_tokens += len(step.tokens)
            logprobs = sequence.logprobs[first : self.num_tokens]
            events.append(StepEvent(self.request.id, step, logprobs=logprobs))
        self.num_steps = len(sequence.steps)
        ended = sequence.finish_reason
        if ended and events:
            events[-1] = replace(events[-1], finish_reason=ended)
        elif ended:
            events.append(StepEvent(self.request.id, None, ended))
        return events

    @property
    def forward(self) -> Forward | None:
        """The forward that it waits for, not run yet."""
        asks = isinstance(self.pending, Forward) and self.answer is None
        return self.pending if asks else None  # type: ignore[return-value]

    @property
    def artifacts(self) -> dict[str, Any]:
        """What the method kept for the caller; nothing of a text that it never saw."""
        return self.method.artifacts() if self.begun else {}

    def begin_again(self, method: Method) -> None:
        """Go on from the text as it is by another method."""
        self.stop()
        self.begun = False
        self.method = method
        self.context = MethodContext()
        self.decoding = decode(method, self.sequence, self.context)
        self.exactness = None
        self.recovered = False

    def fail(self, error: Exception) -> None:
        """End the text: its own callback, processor or logits make it impossible to go on."""
        self.sequence.fail(error)
        self.stop()

    def abort(self) -> None:
        """End the text because nobody wants it any more."""
        self.sequence.finish_reason = "aborted"
        self.stop()

    def stop(self) -> None:
        """Close the loop; nothing is waited for."""
        self.decoding.close()
        self.pending = self.answer = None
