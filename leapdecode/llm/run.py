"""One sample under way: its method, its sequence, its text."""

from typing import Any

from leapdecode.core import Sequence, Step
from leapdecode.llm.detokenize import TextStream
from leapdecode.llm.result import Piece, Result
from leapdecode.methods.base import Method


class Run:
    """Binds a sequence to the text stream that detokenizes it (none without a tokenizer)."""

    def __init__(self, method: Method, sequence: Sequence, tokenizer: Any) -> None:
        self.method, self.sequence = method, sequence
        self.text = TextStream(tokenizer, tuple(sequence.params.stop)) if tokenizer is not None else None
        if self.text is not None and self.text.stop:
            push = self.text.push  # a stop string ends the text, so it must be seen at once; all else can wait
            sequence.on_token = lambda _, token: push(token)
        self.told = self.steps_told = 0
        self.complete = False

    def _read(self) -> None:
        """Detokenize the tokens accepted since the last call; the text's end releases what was held back."""
        if self.text is None:
            return
        for token in self.sequence.generated[len(self.text.pieces) :]:
            self.text.push(token)
        if self.sequence.finish_reason and not self.complete:
            self.text.finish()
            self.complete = True

    def pieces(self, step: Step) -> list[Piece]:
        """The pieces of a step, asked for after each step in turn."""
        self._read()
        found = []
        for token, source in zip(step.tokens, step.sources, strict=True):
            found.append(Piece(self.text.pieces[self.told] if self.text else "", token, self.steps_told, source))
            self.told += 1
        self.steps_told += 1
        return found

    def result(self, model: str) -> Result:
        self._read()
        sequence, text = self.sequence, self.text
        return Result(
            text=text.text if text else "",
            token_ids=sequence.generated,
            prompt_token_ids=sequence.tokens[: sequence.prompt_length],
            finish_reason=sequence.finish_reason or "length",
            stats=sequence.stats,
            steps=sequence.steps,
            model=model,
            method=self.method.name,
            options={field.name: getattr(self.method, field.name) for field in self.method.options()},
            seed=sequence.params.seed,
            exact=sequence.exact_rows > 0 and not sequence.drawn,
            pieces=text.pieces if text else [],
            artifacts=self.method.artifacts(),
        )
