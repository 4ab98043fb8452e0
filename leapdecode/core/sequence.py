"""One text being decoded: its tokens, its limits, what happened to it."""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from leapdecode.core.logprobs import TokenLogprobs
from leapdecode.core.sampling import SamplingParams
from leapdecode.core.stats import Stats, Step

_ids = itertools.count()


@dataclass(eq=False)
class Sequence:
    """A prompt and the tokens generated behind it.

    Attributes:
        tokens: prompt, then generated tokens; the last one is the pending token.
        prompt_length: how many of them are the prompt.
        params: sampling and stopping options.
        stream: logical id of the random stream (sample index, or a position in a reasoning tree);
            texts of equal seed and stream are equal whatever else runs.
        end_tokens: ids that end the text.
        max_length: most tokens, prompt included, that the model's context holds.
        on_token: called with every accepted token, in order; returning True ends the text (stop
            strings, stopping criteria). It sees the sequence with the token already appended.
        watch: called with (sequence, tree, verdict, answer) after every step, for whoever looks on:
            the tree that was evaluated, what was accepted of it, the forward's `ForwardResult`.
        steps: one record per target forward that gave tokens.
        finish_reason: "stop" or "length" once the text has ended; "error" where it could not go on,
            "aborted" where it was not to.
        error: why, where the finish reason is "error".
        logprobs: one entry per generated token, where `params.logprobs` asks for them.
        verification: "seeded" (the text of plain decoding) or "rejection" (its distribution).
        exact_rows: under exact decoding, the most nodes that a tree may have; else 0.
        cache_salt: cached keys and values pass between texts of equal salts alone.
        carried: how many of the last tokens are not final yet; each takes a row.
    """

    tokens: list[int]
    params: SamplingParams = field(default_factory=SamplingParams)
    stream: Hashable = 0
    end_tokens: frozenset[int] = frozenset()
    max_length: int = 1 << 30
    on_token: Callable[["Sequence", int], bool] | None = None
    watch: Callable[["Sequence", Any, Any, Any], None] | None = None
    stats: Stats = field(default_factory=Stats)
    steps: list[Step] = field(default_factory=list)
    finish_reason: str | None = None
    error: Exception | None = None
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    verification: str = "seeded"
    exact_rows: int = 0
    cache_salt: str = ""
    carried: int = 0
    prompt_length: int = 0
    id: int = field(default_factory=_ids.__next__)

    def __post_init__(self) -> None:
        self.tokens = list(self.tokens)
        self.prompt_length = len(self.tokens)
        self.limit = min(self.prompt_length + self.params.max_tokens, self.max_length)

    @property
    def pending(self) -> int:
        """The last token, whose keys and values are not cached yet."""
        return self.tokens[-1]

    @property
    def samples_drafts(self) -> bool:
        """Whether the rejection verifier decides, so that drafts must be draws."""
        return self.verification == "rejection" and not self.params.greedy

    @property
    def knows_noise(self) -> bool:
        """Whether noise that is known beforehand decides: greedy choices have none, and the
        rejection verifier draws anew.
        """
        return not (self.params.greedy or self.samples_drafts)

    @property
    def prompt(self) -> list[int]:
        """The tokens that were given."""
        return self.tokens[: self.prompt_length]

    @property
    def complete(self) -> bool:
        """Whether it ended by itself, or at its limit."""
        return self.finish_reason in ("stop", "length")

    @property
    def generated(self) -> list[int]:
        """Accepted tokens; `tokens` may hold more for a moment, which are still to be confirmed."""
        return self.tokens[self.prompt_length : self.prompt_length + self.stats.tokens]

    @property
    def remaining(self) -> int:
        """How many tokens may still be generated."""
        return self.limit - len(self.tokens)

    def extend(self, tokens: list[int], sources: list[str], rows: int) -> int:
        """Accept `tokens` up to the first that ends the text, record the step, and return how many
        were kept.

        This is the only place where a text grows and the only place where it ends, for every
        method.
        """
        num_emitted = 0
        for token in tokens:
            self.tokens.append(token)
            num_emitted += 1
            self.finish_reason = self._ends_with(token)
            if self.finish_reason:
                break
        self.steps.append(Step(tokens[:num_emitted], sources[:num_emitted], rows))
        self.stats.tokens += num_emitted
        self.stats.accepted_lengths.append(num_emitted)
        return num_emitted

    def fail(self, error: Exception) -> None:
        """End the text: it cannot go on, for the reason that `error` tells."""
        self.finish_reason, self.error = "error", error

    def _ends_with(self, token: int) -> str | None:
        stopped = self.on_token is not None and self.on_token(self, token)
        if stopped or token in self.end_tokens:
            return "stop"
        return "length" if len(self.tokens) >= self.limit else None
