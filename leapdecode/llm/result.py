"""What a generation returns."""

from dataclasses import asdict, dataclass, field
from typing import Any

from leapdecode.core import Stats, Step, TokenLogprobs

SCHEMA = 1


@dataclass(frozen=True)
class Piece:
    """A streamed token: its text (empty while held back), its id, the step that accepted it, where
    it was guessed; its log-probability where `SamplingParams.logprobs` asked for it.
    """

    text: str
    token_id: int
    step: int
    source: str
    logprobs: TokenLogprobs | None = None


@dataclass
class Result:
    """One generated text.

    Attributes:
        text: the generated text, stop string excluded.
        token_ids: the generated ids, the end token included when it was generated.
        finish_reason: "stop" (end token or stop string), "length", "error" (the text could not go
            on), or "aborted".
        stats, steps: counts and times; one record per target forward that gave tokens.
        pieces: the text per token, as `stream` yields it.
        exact: whether the text was decoded exactly: bit-identical logits for every method, batch
            and neighbour.
        audit: what `--audit` found, if it was asked for.
        logprobs: per generated token its log-probability and the likeliest tokens', where
            `SamplingParams.logprobs` asked for them.
        model_defaults: what was taken from the model's generation config, by its names there.
        artifacts: what the method kept for the caller, by name (jacobi with `record`:
            "trajectory").
    """

    text: str
    token_ids: list[int] = field(repr=False)
    prompt_token_ids: list[int] = field(repr=False)
    finish_reason: str
    stats: Stats = field(repr=False)
    steps: list[Step] = field(repr=False)
    model: str
    method: str
    options: dict[str, Any]
    seed: int
    exact: bool = False
    pieces: list[str] = field(default_factory=list, repr=False)
    audit: dict[str, Any] | None = None
    logprobs: list[TokenLogprobs] | None = field(default=None, repr=False)
    artifacts: dict[str, Any] = field(default_factory=dict, repr=False)
    model_defaults: dict[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The document of `leapdecode generate --json`; it has "logprobs" where they were asked
        for.
        """
        return {
            "schema": SCHEMA,
            "model": self.model,
            "method": self.method,
            "options": self.options,
            "text": self.text,
            "prompt_token_ids": self.prompt_token_ids,
            "token_ids": self.token_ids,
            "finish_reason": self.finish_reason,
            "seed": self.seed,
            "exact": self.exact,
            "stats": self.stats.as_dict(),
            "steps": [asdict(step) for step in self.steps],
            **(
                {}
                if self.logprobs is None
                else {"logprobs": [asdict(logprob) for logprob in self.logprobs]}
            ),
            "model_defaults": self.model_defaults,
            "audit": self.audit,
        }
