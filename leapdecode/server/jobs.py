"""From a request's body to what is decoded: token ids, sampling, the method."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from leapdecode.core import SamplingParams
from leapdecode.errors import LeapdecodeError
from leapdecode.llm.llm import LLM
from leapdecode.llm.prompts import encode
from leapdecode.methods import find, make
from leapdecode.methods.base import Method
from leapdecode.server.bodies import MOST_ROWS, ChatCompletion, Completion, Tokenize
from leapdecode.server.failures import Failure
from leapdecode.server.grammars import Form, Grammar, Grammars, grammar_of
from leapdecode.server.settings import Settings

MOST_TRACED = 2048  # tokens of a request whose forwards are traced
COMPLETION_TOKENS = 16  # OpenAI's default for completions


@dataclass(frozen=True)
class Job:
    """What a request asks to be decoded.

    Attributes:
        prompts: token ids of each.
        sampling: of one sample.
        samples: of each prompt.
        arguments: of `AsyncLLM.events`, beside prompt, sampling and stream.
        form: that the answers follow.
        explain: whether every forward is traced.
    """

    prompts: list[list[int]]
    sampling: SamplingParams
    samples: int = 1
    arguments: Mapping[str, Any] = field(default_factory=dict)
    form: Form | None = None
    explain: bool = False

    @property
    def count(self) -> int:
        """Texts in all."""
        return len(self.prompts) * self.samples


class Jobs:
    """Makes jobs of bodies; slow for long prompts, so it belongs into a thread."""

    def __init__(self, llm: LLM, settings: Settings) -> None:
        self.llm, self.settings = llm, settings
        self.grammars = Grammars(llm)

    def of(self, body: Completion | ChatCompletion, form: Form | None) -> Job:
        """The job of a body and its form; raises `Failure` or a user's error."""
        if isinstance(body, ChatCompletion):
            prompts: list[Any] = [[message.plain for message in body.messages]]
            most = body.max_completion_tokens or body.max_tokens
            logprobs = (body.top_logprobs or 0) if body.logprobs else None
            field_name = "messages"
        else:
            prompts = list(body.prompts)
            logprobs = body.logprobs
            field_name = "prompt"
            most = body.max_tokens or COMPLETION_TOKENS
        ids = [self.encoded(prompt, field_name, **ending_of(body)) for prompt in prompts]
        most = self._length(most, ids)
        sampling = SamplingParams(max_tokens=most, logprobs=logprobs, **self._chosen(body))
        arguments = {
            "method": self._method(body),
            "verification": body.verification or "seeded",
            "budget": body.budget or "auto",
        }
        return Job(ids, sampling, body.n or 1, arguments, form, traced(body, sampling))

    def grammar(self, body: Completion | ChatCompletion) -> str | None:
        """The grammar that an answer is to follow; raises `Failure`."""
        try:
            grammar = grammar_of(body)
        except LeapdecodeError as error:
            raise Failure(400, str(error), form_field(body)) from error
        if grammar and body.ignore_eos:
            message = "an answer of a given form ends where the form does; leave ignore_eos out"
            raise Failure(400, message, "ignore_eos")
        return grammar

    def form(self, body: Completion | ChatCompletion, grammar: str) -> Form:
        """The form of a grammar, which may take seconds to compile; raises `Failure`."""
        try:
            return self.grammars.form(grammar)
        except LeapdecodeError as error:
            raise Failure(400, str(error), form_field(body)) from error

    def sampling_of(self, job: Job, ids: list[int]) -> SamplingParams:
        """The sampling of one text; a grammar follows each text on its own."""
        if job.form is None:
            return job.sampling
        return replace(job.sampling, logits_processors=[Grammar(job.form, len(ids))])

    def _method(self, body: Completion | ChatCompletion) -> Method:
        """The method with its options; raises `Failure`."""
        name = self.settings.method if body.method is None else body.method
        options = body.options or {}
        large = [key for key, value in options.items() if key != "seed" and too_large(value)]
        if large:
            raise Failure(400, f"options: {large[0]} may be at most {MOST_ROWS} here", "options")
        if options.get("history") and not self.settings.knows_clients:
            message = "history is kept by API key, and this server asks for none (--api-key)"
            raise Failure(400, f"options: {message}", "options")
        try:
            find(name)
        except LeapdecodeError as error:
            raise Failure(400, str(error), "method") from error
        try:
            return make(name, options)
        except LeapdecodeError as error:
            raise Failure(400, str(error), "options") from error

    def encoded(self, prompt: Any, name: str, **ending: bool) -> list[int]:
        """Token ids of a prompt that fits; raises `Failure` that names the field."""
        room = self.llm.runner.max_length
        try:
            ids = encode(prompt, self.llm.tokenizer, self.llm.runner.vocabulary, **ending)
        except LeapdecodeError as error:
            raise Failure(400, str(error), name) from error
        if len(ids) >= room:
            raise Failure(
                400,
                f"this prompt has {len(ids):,} tokens; the model's context has {room:,}, and at "
                "least one is for the answer",
                name,
                "context_length_exceeded",
            )
        return ids

    def _length(self, max_tokens: int | None, prompts: list[list[int]]) -> int:
        """Most tokens of an answer: `max_tokens`, as far as the model's context reaches."""
        most = self.settings.max_tokens
        context = self.llm.runner.max_length
        if max_tokens is not None and max_tokens > most:
            raise Failure(400, f"max_tokens may be at most {most:,} on this server", "max_tokens")
        return min(max_tokens or most, context - min(map(len, prompts)))

    def _chosen(self, body: Completion | ChatCompletion) -> dict[str, Any]:
        """Fields of `SamplingParams` that say how tokens are chosen."""
        stops = [body.stop] if isinstance(body.stop, str) else body.stop or ()
        fields: dict[str, Any] = {
            "temperature": 1.0 if body.temperature is None else body.temperature,
            "seed": secrets.randbits(63) if body.seed is None else body.seed,
            "logit_bias": self._bias(body.logit_bias or {}),
        }
        if body.stop is not None:
            fields["stop"] = [stop for stop in stops if stop]
        if body.top_k is not None:
            fields["top_k"] = max(body.top_k, 0)
        for name in (
            "top_p", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
            "stop_token_ids", "ignore_eos",
        ):  # fmt: skip
            value = getattr(body, name)
            if value is not None:
                fields[name] = value
        if body.top_p == 0:  # the smallest nucleus
            fields["top_k"] = 1
            del fields["top_p"]
        return fields

    def _bias(self, biases: Mapping[str, float]) -> dict[int, float]:
        vocabulary = self.llm.runner.vocabulary
        bias_by_id = {}
        for token, bias in biases.items():
            is_number = token.isascii() and token.isdigit() and len(token) < 12
            if not (is_number and int(token) < vocabulary):
                raise Failure(
                    400,
                    f"logit_bias names token {token[:20]!r}; token ids go from 0 to "
                    f"{vocabulary - 1}",
                    "logit_bias",
                )
            bias_by_id[int(token)] = bias
        return bias_by_id


def form_field(body: Completion | ChatCompletion) -> str:
    """The field that says which form an answer is to have."""
    return "response_format" if body.structured_outputs is None else "structured_outputs"


def ending_of(body: Completion | ChatCompletion | Tokenize) -> dict[str, bool]:
    """Whether the last message of a conversation goes on, or an answer begins."""
    if isinstance(body, Completion):
        return {}
    return {
        "continue_final_message": body.continue_final_message,
        "add_generation_prompt": body.add_generation_prompt,
    }


def too_large(value: Any) -> bool:
    """Whether an option is a number that one request may not ask for."""
    return isinstance(value, int | float) and value > MOST_ROWS


def traced(body: Completion | ChatCompletion, sampling: SamplingParams) -> bool:
    """Whether a request's forwards are traced; raises `Failure` where that is too much."""
    if not body.explain:
        return False
    if texts_of(body) * sampling.max_tokens > MOST_TRACED:
        raise Failure(
            400, f"explain goes with at most {MOST_TRACED:,} tokens, all texts together", "explain"
        )
    return not body.stream or bool(body.stream_options and body.stream_options.include_usage)


def texts_of(body: Completion | ChatCompletion) -> int:
    """How many texts a request asks for."""
    prompts = 1 if isinstance(body, ChatCompletion) else len(body.prompts)
    return prompts * (body.n or 1)
