"""One row of the batch: its sequence, its logits processors and its stopping criteria."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation import logits_process
from transformers.generation.logits_process import (
    PrefixConstrainedLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
)
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria

from leapdecode.core import Request, SamplingParams, Sequence
from leapdecode.errors import PromptError
from leapdecode.methods.base import Method

# transformers' processors that treat every row alike, so that they can be shown many
# texts at once. All others are shown one text at a time.
ROW_BLIND = {
    logits_process.EpsilonLogitsWarper,
    logits_process.EtaLogitsWarper,
    logits_process.ExponentialDecayLengthPenalty,
    logits_process.ForcedBOSTokenLogitsProcessor,
    logits_process.ForcedEOSTokenLogitsProcessor,
    logits_process.InfNanRemoveLogitsProcessor,
    logits_process.LogitNormalization,
    logits_process.MinLengthLogitsProcessor,
    logits_process.MinNewTokensLengthLogitsProcessor,
    logits_process.MinPLogitsWarper,
    logits_process.NoBadWordsLogitsProcessor,
    logits_process.NoRepeatNGramLogitsProcessor,
    logits_process.RepetitionPenaltyLogitsProcessor,
    logits_process.SequenceBiasLogitsProcessor,
    logits_process.SuppressTokensAtBeginLogitsProcessor,
    logits_process.SuppressTokensLogitsProcessor,
    logits_process.TemperatureLogitsWarper,
    logits_process.TopKLogitsWarper,
    logits_process.TopPLogitsWarper,
    logits_process.TypicalLogitsWarper,
    logits_process.WatermarkLogitsProcessor,
}


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
        pads = self.ids[:padding]
        self.processors = RowProcessors(processors, row, len(input_ids), pads)

    def begin(self, config: GenerationConfig, seed: int) -> None:
        """Say what is asked for; the text is fixed by `seed` and by the row's number."""
        params = SamplingParams(
            max_tokens=self.room,
            temperature=1.0 if config.do_sample else 0.0,
            seed=seed,
            logits_processors=(self.processors,) if self.processors.kinds else (),
        )
        prompt = self.ids[self.padding :].tolist()
        self.wanted: dict[str, Any] = {
            "prompt_ids": prompt,
            "sampling": params,
            "stream": self.row,
            "end_tokens": self.ends,
            "on_token": self._stops if self.criteria or self.processors.one_by_one else None,
        }
        self.buffer = torch.cat([self.ids, self.ids.new_zeros(self.room)])

    def request(self, method: Method) -> Request:
        """The row as a request to an engine, decoded by `method`; `sequence` is set once it has
        ended.
        """
        made = Request(method=method, pool=method.pool, **self.wanted)
        self.id = made.id
        return made

    @property
    def cut(self) -> bool:
        """Whether the model's context ended the text before its `max_length`."""
        length = self.padding + len(self.sequence.tokens)
        return self.sequence.finish_reason == "length" and length < self.allowed

    def _stops(self, sequence: Sequence, token: int) -> bool:
        self.processors.raise_at(sequence.tokens[:-1])
        length = self.padding + len(sequence.tokens)
        self.buffer[length - 1] = token
        shown: list[Any] = [self.buffer[None, :length], None]
        return bool(self.criteria) and bool(self.criteria(*shown).all())


class RowProcessors:
    """The batch's processors for many possible texts of one row.

    They are shown the row's left padding too. Where a processor may look at the row's number or
    at the size of the batch, it is shown a batch of the true size for every single text: the
    text stands in its own row, and in all others, whose texts have other lengths by now.
    """

    def __init__(self, processors: LogitsProcessorList, row: int, batch: int, pads: Tensor) -> None:
        self.row, self.batch, self.pads = row, batch, pads
        self.kinds = [_of_row(processor, row) for processor in processors]
        self.one_by_one = any(type(kind) not in ROW_BLIND for kind in self.kinds)
        self.errors: dict[tuple[int, ...], Exception] = {}

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        """Processed scores [N, V] of N texts `ids` [N, length]."""
        ids = ids.to(self.pads.device)
        if self.errors:
            for text in ids.tolist():
                self.errors.pop(tuple(text), None)
        whole: Any = torch.cat([self.pads.expand(len(ids), -1), ids], 1)
        for kind in self.kinds:
            if type(kind) in ROW_BLIND:
                scores = kind(whole, scores)
            else:
                answers = [self._one(kind, *pair) for pair in zip(whole, scores, strict=True)]
                scores = torch.stack(answers)
        return scores

    def _one(self, kind: Any, text: Tensor, scores: Tensor) -> Tensor:
        """Processed scores [V] of one text; an error is kept until the text is known to be real.

        A guess may be a text that the processor itself would never have allowed.
        """
        bare = type(kind) is PrefixConstrainedLogitsProcessor
        row, batch = (0, 1) if bare else (self.row, self.batch)
        known = tuple(text[len(self.pads) :].tolist())
        if known in self.errors:
            return scores
        try:
            answer: Tensor = kind(text.repeat(batch, 1), scores.repeat(batch, 1))[row]
        except Exception as error:  # a user's processor may raise anything
            self.errors[known] = error
            return scores
        return answer

    def raise_at(self, text: list[int]) -> None:
        """Raise what a processor raised at `text`, which is real; forget what came before it."""
        if not self.errors:
            return
        if (error := self.errors.get(tuple(text))) is not None:
            raise error
        self.errors = {key: kept for key, kept in self.errors.items() if len(key) > len(text)}


def _of_row(processor: Any, row: int) -> Any:
    """A processor of the batch for one row, where its class tells how it depends on the row."""
    if type(processor) is PrefixConstrainedLogitsProcessor:
        allowed = processor._prefix_allowed_tokens_fn
        return PrefixConstrainedLogitsProcessor(lambda _, text: allowed(row, text), 1)
    if type(processor) is RepetitionPenaltyLogitsProcessor:
        ignored = vars(processor).get("prompt_ignore_length")  # with padding: one number per row
        if isinstance(ignored, Tensor):
            processor = copy.copy(processor)
            processor.prompt_ignore_length = int(ignored[row])
    return processor
