"""One sample under way: its request and its text."""

import contextlib
from dataclasses import replace
from typing import Any

from leapdecode.core import Output, Request, Step
from leapdecode.llm.detokenize import TextStream
from leapdecode.llm.result import Piece, Result


class Run:
    """Binds a request to the text stream that detokenizes it (none without a tokenizer)."""

    def __init__(self, request: Request, tokenizer: Any) -> None:
        stop = tuple(request.sampling.stop)
        self.text = TextStream(tokenizer, stop) if tokenizer is not None else None
        if self.text is not None and stop:
            # a stop string ends the text, so it must be seen at once; all else can wait
            push = self.text.push
            request = replace(request, on_token=lambda _, token: push(token))
        self.request = request
        self.tokens: list[int] = []
        self.num_pieces = self.num_steps = 0
        self.complete = False

    def _read(self, ended: bool) -> None:
        """Detokenize the tokens accepted since the last call; the text's end releases what was held
        back.
        """
        if self.text is None:
            return
        for token in self.tokens[len(self.text.pieces) :]:
            self.text.push(token)
        if ended and not self.complete:
            self.text.finish()
            self.complete = True

    def pieces(self, step: Step, ended: bool) -> list[Piece]:
        """The pieces of a step, asked for after each step in turn; `ended` with the last one."""
        self.tokens += step.tokens
        self._read(ended)
        found = []
        for token, source in zip(step.tokens, step.sources, strict=True):
            text = self.text.pieces[self.num_pieces] if self.text else ""
            found.append(Piece(text, token, self.num_steps, source))
            self.num_pieces += 1
        self.num_steps += 1
        return found

    def result(self, output: Output, model: str) -> Result:
        """The whole text as a `Result`."""
        sequence = output.sequence
        self.tokens = sequence.generated
        self._read(ended=True)
        return Result(
            text=self.text.text if self.text else "",
            token_ids=sequence.generated,
            prompt_token_ids=sequence.tokens[: sequence.prompt_length],
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
        )


def raise_first(errors: list[Exception | None], results: list[Result]) -> None:
    """Raise the first of `errors`, carrying the `results` of all prompts: those of the others are
    whole.
    """
    for error in errors:
        if error is not None:
            # a class of a user's own may take no attributes
            with contextlib.suppress(AttributeError):
                error.results = results  # type: ignore[attr-defined]
            raise error
