"""One sample that is being decoded: its request and its text."""

import contextlib
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from leapdecode.core import Output, Request, SamplingParams, StepEvent, TokenLogprobs
from leapdecode.engine import Engine
from leapdecode.errors import OptionError
from leapdecode.llm.checks import check_process
from leapdecode.llm.detokenize import TextStream
from leapdecode.llm.loaded_models import LoadedModels
from leapdecode.llm.prompts import encode
from leapdecode.llm.result import Piece, Result
from leapdecode.methods.base import Method
from leapdecode.methods.registry import DEFAULT
from leapdecode.model.names import AUTO
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.store import Store


class Run:
    """Binds a request to the text stream that detokenizes it (none without a tokenizer)."""

    def __init__(
        self, request: Request, tokenizer: Any, model_defaults: dict[str, Any] | None = None
    ) -> None:
        self.model_defaults = model_defaults or {}
        stop = tuple(request.sampling.stop)
        self.text = (
            TextStream(tokenizer, stop, request.prompt_ids) if tokenizer is not None else None
        )
        if self.text is not None and stop:
            # a stop string ends the text, so it must be seen at once; all else can wait
            push = self.text.push
            request = replace(request, on_token=lambda _, token: push(token))
        self.request = request
        self.tokens: list[int] = []
        self.num_pieces = self.num_steps = 0
        self.complete = False

    def _read(self, ended: bool) -> None:
        """Detokenize the tokens accepted since the last call; at the end, what was held back."""
        if self.text is None:
            return
        for token in self.tokens[len(self.text.pieces) :]:
            self.text.push(token)
        if ended and not self.complete:
            self.text.finish()
            self.complete = True

    def pieces(self, event: StepEvent) -> list[Piece]:
        """The pieces of a step; to be called after every step, in order."""
        step = event.step
        if step is None:
            return []
        self.tokens += step.tokens
        self._read(event.finish_reason is not None)
        logprobs: Sequence[TokenLogprobs | None] = event.logprobs or [None] * len(step.tokens)
        pieces = []
        for token, source, logprob in zip(step.tokens, step.sources, logprobs, strict=True):
            text = self.text.pieces[self.num_pieces] if self.text else ""
            pieces.append(Piece(text, token, self.num_steps, source, logprob))
            self.num_pieces += 1
        self.num_steps += 1
        return pieces

    def result(self, output: Output, model: str) -> Result:
        """The whole text as a `Result`."""
        sequence = output.sequence
        self.tokens = sequence.generated
        self._read(ended=True)
        return Result(
            text=self.text.text if self.text else "",
            token_ids=sequence.generated,
            prompt_token_ids=sequence.prompt,
            finish_reason=sequence.finish_reason or "length",
            stats=sequence.stats,
            steps=sequence.steps,
            model=model,
            method=output.method,
            options=output.options,
            seed=sequence.params.seed,
            exact=output.exact,
            pieces=self.text.pieces if self.text else [],
            logprobs=sequence.logprobs if sequence.params.logprobs is not None else None,
            artifacts=output.artifacts,
            model_defaults=self.model_defaults,
        )


def runs_of(
    llm: LoadedModels,
    prompts: list[Any],
    sampling: SamplingParams,
    method: str | Method = DEFAULT,
    *,
    verification: str = "seeded",
    budget: int | str | None = AUTO,
    pool: NgramPool | None = None,
    store: Store | None = None,
    stream: Hashable | list[Hashable] = None,
    cache_salt: str = "",
    watch: Callable[[Any, Any, Any, Any], None] | None = None,
    continue_final_message: bool | None = None,
    **options: Any,
) -> list[Run]:
    """A run per sample of each prompt; an engine checks the rest when requests are added."""
    check_process(llm.pid)
    if sampling.stop and llm.tokenizer is None:
        raise OptionError(
            "stop strings need a tokenizer; pass LLM(model, tokenizer), or use stop_token_ids"
        )
    model_defaults = llm.model_defaults.used_by(sampling)
    if "row_budget" in options:
        warnings.warn("row_budget is now called budget", DeprecationWarning, stacklevel=3)
        budget = options.pop("row_budget")
    end_tokens = frozenset() if sampling.ignore_eos else llm.end_tokens
    streams = _streams(stream, len(prompts), sampling.n)
    runs = []
    for prompt, streams_of_prompt in zip(prompts, streams, strict=True):
        ids = encode(
            prompt,
            llm.tokenizer,
            llm.runner.vocabulary,
            continue_final_message=continue_final_message,
        )
        filled = llm.filled(sampling, len(ids))
        for noise_stream in streams_of_prompt:
            request = Request(
                ids,
                filled,
                method,
                options,
                verification,
                noise_stream,
                end_tokens,
                budget,
                pool,
                store,
                cache_salt,
                watch=watch,
            )
            runs.append(Run(request, llm.tokenizer, model_defaults))
    return runs


def _streams(stream: Any, prompts: int, samples: int) -> list[list[Hashable]]:
    """For each prompt the noise streams of its samples; raises `OptionError`."""
    if stream is None:
        return [list(range(samples))] * prompts
    names = stream if isinstance(stream, list) else [stream] * prompts
    if len(names) != prompts:
        raise OptionError(f"stream names {len(names)} streams for {prompts} prompts; give one each")
    for name in names:
        try:
            hash(name)
        except TypeError as error:
            message = f"stream={name!r} must be hashable: a number, a string or a tuple"
            raise OptionError(message) from error
    if samples == 1:
        return [[name] for name in names]
    return [[(name, sample) for sample in range(samples)] for name in names]


def decode_all(
    engine: Engine, runs: list[Run], on_step: Callable[[int, list[Piece]], bool | None] | None
) -> None:
    """Step until all runs have ended; `on_step` gets (number, pieces) and ends a text by True."""
    numbers = {run.request.id: number for number, run in enumerate(runs)}
    while engine.busy:
        for event in engine.step():
            if on_step and event.step:
                number = numbers[event.request_id]
                pieces = runs[number].pieces(event)
                if on_step(number, pieces) is True:
                    engine.abort(event.request_id)


def raise_first(errors: list[Exception | None], results: list[Result]) -> None:
    """Raise the first of `errors` with the `results` of all prompts: those of others are whole."""
    for error in errors:
        if error is not None:
            # a class of a user's own may take no attributes
            with contextlib.suppress(AttributeError):
                error.results = results  # type: ignore[attr-defined]
            raise error


def streamed(run: Run, engine: Engine, lock: threading.RLock) -> Iterator[Piece]:
    """The pieces of a run; the lock is held during steps, not while the caller has a piece."""
    try:
        while engine.busy:
            with lock:
                events = engine.step()
            for event in events:
                yield from run.pieces(event)
        raise_first([engine.result(run.request.id).sequence.error], [])
    finally:
        with lock:
            engine.close()
