"""One row of the batch: its sequence, its logits processors and its stopping criteria."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation.logits_process import (
    PrefixConstrainedLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria

from leapdecode.core import Request, SamplingParams, Sequence
from leapdecode.errors import PromptError
from leapdecode.methods.base import Method
from leapdecode.verify.custom import PURE, check_suited, copy_for_text, is_pure


class Row:
    """One row's sequence, and its padded ids as processors and criteria expect to see them."""

    def __init__(
        self, input_ids: Tensor, row: int, padding: int,
        processors: LogitsProcessorList, criteria: StoppingCriteriaList, context: int,
    ) -> None:  # fmt: skip
        self.sequence: Sequence
        self.ids, self.row, self.padding, self.context = input_ids[row], row, padding, context
        ends = [c.eos_token_id.tolist() for c in criteria if isinstance(c, EosTokenCriteria)]
        self.ends = frozenset(token for tokens in ends for token in tokens)
        lengths = [c.max_length for c in criteria if isinstance(c, MaxLengthCriteria)]
        self.allowed = min(lengths, default=1 << 30)
        self.room = min(self.allowed, context + padding) - len(self.ids)
        if self.room < 1:
            raise PromptError(
                f"the prompt has {len(self.ids)} tokens and leaves no room below "
                f"max_length={self.allowed} or the context of {context}; shorten the prompt"
            )
        native = EosTokenCriteria | MaxLengthCriteria
        self.criteria = StoppingCriteriaList(c for c in criteria if not isinstance(c, native))
        self.stopped: int | None = None  # the padded length at which its criteria first held
        self.batch = [self]
        pads = self.ids[:padding]
        self.processors = of_row(processors, row, len(input_ids), pads)

    def begin(self, config: GenerationConfig, seed: int) -> None:
        """Say what is asked for; the text is fixed by `seed` and by the row's number."""
        params = SamplingParams(
            max_tokens=self.room,
            temperature=1.0 if config.do_sample else 0.0,
            seed=seed,
            logits_processors=self.processors,
        )
        prompt = self.ids[self.padding :].tolist()
        self.wanted: dict[str, Any] = {
            "prompt_ids": prompt,
            "sampling": params,
            "stream": self.row,
            "end_tokens": self.ends,
            "on_token": self._stops if self.criteria else None,
        }
        self.buffer = torch.cat([self.ids, self.ids.new_zeros(self.room)])

    def request(self, method: Method) -> Request:
        """The row as a request to an engine, decoded by `method`; `sequence` is set once it has
        ended.
        """
        request = Request(method=method, **self.wanted)
        self.id = request.id
        return request

    @property
    def cut(self) -> bool:
        """Whether the model's context ended the text before its `max_length`."""
        length = self.padding + len(self.sequence.tokens)
        return self.sequence.finish_reason == "length" and length < self.allowed

    def _stops(self, sequence: Sequence, token: int) -> bool:
        length = self.padding + len(sequence.tokens)
        self.buffer[length - 1] = token
        shown: list[Any] = [self.buffer[None, :length], None]
        if self.stopped is None and bool(self.criteria(*shown).all()):
            self.stopped = length
        if self.ends:
            return self.stopped is not None
        # without end tokens `generate` pads no row: each goes on until all have stopped
        stops = [row.stopped for row in self.batch]
        return None not in stops and length >= max(stop for stop in stops if stop is not None)

    @property
    def generated(self) -> list[int]:
        """The tokens that `generate` gives; a row that was ahead of the others has more."""
        stops = [row.stopped for row in self.batch if row.stopped is not None]
        if self.ends or len(stops) < len(self.batch):
            return self.sequence.generated
        return self.sequence.generated[: max(stops) - len(self.ids)]


class RowProcessor:
    """One of the batch's processors, for many possible texts of one row.

    It is shown the row's left padding too. Where it may look at the row's number or at the size of
    the batch, it is shown a batch of the true size for every single text: the text stands in its
    own row, and in all others, whose texts have other lengths by now. Where it may keep state,
    each row has its own.

    Attributes:
        stateful: what it says of itself, see `SamplingParams`.
    """

    def __init__(self, processor: Any, row: int, batch: int, pads: Tensor) -> None:
        self.pads = pads
        self.row = row
        self.batch = batch
        constrains = type(processor) is PrefixConstrainedLogitsProcessor
        callback = processor._prefix_allowed_tokens_fn if constrains else processor
        self.together = type(processor) in PURE
        self.stateful = False if self.together else getattr(callback, "stateful", None)
        if row and not is_pure(self):
            callback = copy_for_text(callback)
        self.processor = callback
        if constrains:
            self.processor = PrefixConstrainedLogitsProcessor(
                lambda _, text: callback(row, text), 1
            )
            self.row, self.batch = 0, 1
        elif type(processor) is RepetitionPenaltyLogitsProcessor:
            ignored = vars(processor).get("prompt_ignore_length")  # with padding: a number per row
            if isinstance(ignored, Tensor):
                self.processor = copy.copy(processor)
                self.processor.prompt_ignore_length = int(ignored[row])

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        """Processed scores [N, V] of N texts `ids` [N, length]."""
        ids = ids.to(self.pads.device)
        whole: Any = torch.cat([self.pads.expand(len(ids), -1), ids], 1)
        if self.together:
            together: Tensor = self.processor(whole, scores)
            return together
        return torch.stack([self._one(*pair) for pair in zip(whole, scores, strict=True)])

    def _one(self, text: Tensor, scores: Tensor) -> Tensor:
        """Processed scores [V] of one text."""
        batch = self.batch
        answer: Tensor = self.processor(text.repeat(batch, 1), scores.repeat(batch, 1))[self.row]
        return answer


def of_row(
    processors: LogitsProcessorList, row: int, batch: int, pads: Tensor
) -> tuple[RowProcessor, ...]:
    """A row's processors; raises `OptionError` for those that no text can have."""
    for processor in processors:
        check_suited(processor)
    return tuple(RowProcessor(processor, row, batch, pads) for processor in processors)
