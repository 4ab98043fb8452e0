"""How tokens are chosen and when a text ends: the user's side of a request."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leapdecode.errors import OptionError


@dataclass(frozen=True)
class SamplingParams:
    """Sampling and stopping options of one request.

    Logits are changed in this order: logit_bias, repetition penalty (prompt and text, as in transformers), presence
    and frequency penalties (generated text only), `logits_processors`, temperature, top_k, top_p, min_p.

    Attributes:
        max_tokens: most tokens to generate, the end token included.
        temperature: 0 is greedy.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set of tokens whose probability reaches this; 1 keeps all.
        min_p: keep tokens at least this fraction as likely as the most likely one; 0 keeps all.
        repetition_penalty: above 1 makes tokens of the prompt and the text less likely.
        presence_penalty, frequency_penalty: subtracted once, or per occurrence, for generated tokens.
        logit_bias: added to the logits of these token ids.
        seed: equal seeds give equal texts, with every method, alone or in any batch.
        n: samples per prompt.
        stop: the text ends before the first of these strings.
        stop_token_ids: further ids that end the text, beside the model's own end tokens.
        ignore_eos: do not end at the model's end tokens.
        logits_processors: called as `processor(ids, logits)` with ids [nodes, length] and logits
            [nodes, vocabulary]; each must depend on its arguments alone.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    n: int = 1
    stop: Sequence[str] | str = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logits_processors: Sequence[Callable[[Any, Any], Any]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop))
        if not all(isinstance(text, str) and text for text in self.stop):
            raise OptionError("stop holds an empty string or a non-string; give the text to stop at")
        ranges: dict[str, tuple[bool, str]] = {
            "max_tokens": (_whole(self.max_tokens) and self.max_tokens >= 1, "a whole number of at least 1"),
            "temperature": (
                _finite(self.temperature) and self.temperature >= 0,
                "finite and at least 0 (0 is greedy)",
            ),
            "top_k": (_whole(self.top_k) and self.top_k >= 0, "a whole number of at least 0 (0 keeps all)"),
            "top_p": (_finite(self.top_p) and 0 < self.top_p <= 1, "above 0 and at most 1"),
            "min_p": (_finite(self.min_p) and 0 <= self.min_p < 1, "at least 0 and below 1"),
            "repetition_penalty": (_finite(self.repetition_penalty) and self.repetition_penalty > 0, "above 0"),
            "presence_penalty": (_finite(self.presence_penalty), "a finite number"),
            "frequency_penalty": (_finite(self.frequency_penalty), "a finite number"),
            "seed": (_whole(self.seed), "a whole number"),
            "n": (_whole(self.n) and self.n >= 1, "a whole number of at least 1"),
        }
        for name, (holds, rule) in ranges.items():
            if not holds:
                raise OptionError(f"{name}={getattr(self, name)!r} is out of range: {name} must be {rule}")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
