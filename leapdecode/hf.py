"""Inside an existing transformers program: `model.generate(**inputs, custom_generate=decoding("lookahead"))`.

transformers hands a callable neither the streamer nor the tokenizer, so both are bound here: either
`decoding("lookahead", streamer=streamer)`, or `decoding("lookahead").generate(model, **inputs, streamer=streamer,
tokenizer=tokenizer, stop_strings=[...])`.
"""

import copy
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, StopStringCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from leapdecode.core import SamplingParams, Sequence, Stats
from leapdecode.errors import OptionError, PromptError
from leapdecode.executors import Batched
from leapdecode.llm.checks import fingerprint
from leapdecode.methods.base import Method
from leapdecode.methods.registry import fresh, make
from leapdecode.model.load import prepare
from leapdecode.model.plain import PlainRunner
from leapdecode.model.runner import Runner
from leapdecode.pools.ngrams import NgramPool
from leapdecode.verify.processors import refuse_stateful

OUTPUT_FLAGS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
OTHER_MODES = ("prompt_lookup_num_tokens", "penalty_alpha", "dola_layers", "constraints", "force_words_ids")


def decoding(
    method: str = "lookahead", *, draft: Any = None, streamer: Any = None, fallback: str | None = None, **options: Any
) -> "Decoding":
    """A `custom_generate` callable that decodes with `method` and its `options`.

    Greedy text equals transformers' own; sampled text has its law, not its draws, and is fixed by
    `torch.manual_seed`. GenerationConfig, logits processors, stopping criteria (asked after every token),
    `return_dict_in_generate` and left-padded batches work as in transformers; beams, `output_*` flags and prefilled
    caches are refused by name. `stats` holds one `Stats` per row of the last call.
    """
    if fallback not in (None, "autoregressive"):
        raise OptionError(f"fallback={fallback!r}: the one fallback is 'autoregressive'")
    return Decoding(make(method, options), draft, streamer, fallback)


class Decoding:
    """A configured decoding method in the form that `generate(custom_generate=...)` calls."""

    def __init__(self, method: Method, draft: Any, streamer: Any, fallback: str | None) -> None:
        if method.needs_draft and draft is None:
            raise OptionError(
                f"method {method.name!r} needs a draft model; pass decoding({method.name!r}, draft=model)"
            )
        self.method, self.draft, self.streamer, self.fallback = method, draft, streamer, fallback
        if getattr(method, "history", False):
            method.pool = NgramPool()
        self.stats: list[Stats] = []
        self.runners: weakref.WeakKeyDictionary[Any, Runner | PlainRunner] = weakref.WeakKeyDictionary()

    def generate(
        self,
        model: Any,
        inputs: Tensor | None = None,
        *,
        streamer: Any = None,
        tokenizer: Any = None,
        stop_strings: str | list[str] | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        **arguments: Any,
    ) -> Any:
        """`model.generate` with this decoding, and with the streamer and the stop strings that it cannot pass on."""
        criteria = StoppingCriteriaList(stopping_criteria or [])
        config = arguments.get("generation_config")
        if config is not None and config.stop_strings:
            stop_strings = stop_strings or config.stop_strings
            arguments["generation_config"] = copy.deepcopy(config)
            arguments["generation_config"].stop_strings = None
        if stop_strings:
            if tokenizer is None:
                raise OptionError("stop_strings need the tokenizer; pass tokenizer=...")
            criteria.append(StopStringCriteria(tokenizer, stop_strings))
        bound = copy.copy(self)
        bound.streamer = streamer or self.streamer
        try:
            return model.generate(inputs, stopping_criteria=criteria, custom_generate=bound, **arguments)
        finally:
            self.stats = bound.stats

    def __call__(
        self,
        model: Any,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList | None = None,
        stopping_criteria: StoppingCriteriaList | None = None,
        generation_config: GenerationConfig | None = None,
        **model_kwargs: Any,
    ) -> Any:
        """Called by `generate`; returns [batch, length] ids, or a `GenerateDecoderOnlyOutput`."""
        config = generation_config or GenerationConfig()
        processors, criteria = logits_processor or LogitsProcessorList(), stopping_criteria or StoppingCriteriaList()
        _refuse(config, model_kwargs, model, self.streamer, len(input_ids))
        for processor in processors:
            refuse_stateful(processor)
        models = {"target": self._runner(model, self.fallback)}
        if self.draft is not None and self.method.needs_draft:
            models["draft"] = self._runner(self.draft, None)  # a draft that cannot be rolled back is no draft
        if len(sizes := {runner.vocabulary for runner in models.values()}) > 1:
            raise OptionError(f"draft and target have other vocabularies ({sizes}); choose a draft with the target's")
        if self.method.pool is not None:
            self.method.pool.bind(fingerprint(None, models["target"].vocabulary))
        seed = int(torch.randint(1 << 62, (1,))) if config.do_sample else 0
        mask = model_kwargs.get("attention_mask")
        rows = [
            _Row(ids, _padding(mask, row), processors, criteria, config, seed, row, models["target"].max_length)
            for row, ids in enumerate(input_ids)
        ]
        method = self.method if isinstance(models["target"], Runner) else make("autoregressive", {})
        self._run(Batched(models, len(rows)), method, rows, input_ids)  # type: ignore[arg-type]
        self.stats = [row.sequence.stats for row in rows]
        return _output(rows, input_ids, config)

    def _runner(self, model: Any, fallback: str | None) -> Runner | PlainRunner:
        weight = model.get_input_embeddings().weight
        known = self.runners.get(model)
        stale = isinstance(known, Runner) and (known.dtype, known.device) != (weight.dtype, weight.device)
        if known is None or stale:
            known = self.runners[model] = prepare(model, fallback)
        return known

    def _run(self, executor: Batched, method: Method, rows: list["_Row"], input_ids: Tensor) -> None:
        if self.streamer is not None:
            self.streamer.put(input_ids.cpu())
        slots = max(row.sequence.limit for row in rows) + 256
        for _, step in executor.run([(fresh(method), row.sequence) for row in rows], min(slots, 4096)):
            if self.streamer is not None:
                for token in step.tokens:
                    self.streamer.put(torch.tensor([token]))
        if self.streamer is not None:
            self.streamer.end()


class _Row:
    """One row of the batch: its sequence, and its padded ids as processors and criteria expect to see them."""

    def __init__(
        self, ids: Tensor, padding: int, processors: LogitsProcessorList, criteria: StoppingCriteriaList,
        config: GenerationConfig, seed: int, row: int, context: int,
    ) -> None:  # fmt: skip
        ends = [c.eos_token_id.tolist() for c in criteria if isinstance(c, EosTokenCriteria)]
        lengths = [c.max_length for c in criteria if isinstance(c, MaxLengthCriteria)]
        native = EosTokenCriteria | MaxLengthCriteria
        self.criteria = StoppingCriteriaList(c for c in criteria if not isinstance(c, native))
        self.padding, self.device = padding, ids.device
        room = min([*lengths, context + padding]) - len(ids)
        if room < 1:
            raise PromptError(
                f"the prompt has {len(ids)} tokens and leaves no room below max_length or the context of {context}"
            )
        self.pads = ids[:padding]
        params = SamplingParams(
            max_tokens=room,
            temperature=1.0 if config.do_sample else 0.0,
            seed=seed,
            logits_processors=(self._padded(_of_row(processors, row)),) if processors else (),
        )
        self.sequence = Sequence(ids[padding:].tolist(), params, row, frozenset(t for e in ends for t in e), context)
        self.buffer = torch.cat([ids, ids.new_zeros(room)])
        if self.criteria:
            self.sequence.on_token = self._stops

    def _padded(self, processors: LogitsProcessorList) -> Callable[[Tensor, Tensor], Tensor]:
        """The processors, shown the row's left padding too, as transformers shows it to them."""

        def process(ids: Tensor, scores: Tensor) -> Tensor:
            whole = torch.cat([self.pads.expand(len(ids), -1), ids.to(self.pads.device)], 1)
            return processors(whole, scores)  # type: ignore[no-any-return, arg-type]

        return process

    def _stops(self, sequence: Sequence, token: int) -> bool:
        length = self.padding + len(sequence.tokens)
        self.buffer[length - 1] = token
        return bool(self.criteria(self.buffer[None, :length], None).all())  # type: ignore[arg-type]


def _of_row(processors: LogitsProcessorList, row: int) -> LogitsProcessorList:
    """The batch's processors for one row: the repetition penalty holds every row's padding in one tensor."""
    found = LogitsProcessorList()
    for processor in processors:
        ignored = vars(processor).get("prompt_ignore_length")
        if isinstance(processor, RepetitionPenaltyLogitsProcessor) and isinstance(ignored, Tensor):
            processor = copy.copy(processor)
            processor.prompt_ignore_length = int(ignored[row])
        found.append(processor)
    return found


def _refuse(config: GenerationConfig, model_kwargs: dict[str, Any], model: Any, streamer: Any, batch: int) -> None:
    """Raise `OptionError`, naming the option, for what this decoding cannot honour."""
    if (config.num_beams or 1) > 1:
        raise OptionError(f"num_beams={config.num_beams}: this decoding has no beams; use num_beams=1")
    for name in OUTPUT_FLAGS:
        if getattr(config, name, None):
            raise OptionError(f"{name}=True is not supported by this decoding; leave it out")
    for name in OTHER_MODES:
        if getattr(config, name, None) is not None:
            raise OptionError(f"{name} selects another decoding method; leave it out, or drop custom_generate")
    cache = model_kwargs.get("past_key_values")
    if cache is not None and cache.get_seq_length() > 0:
        raise OptionError("past_key_values already holds tokens; this decoding fills its own cache, so leave it out")
    if model_kwargs.get("inputs_embeds") is not None:
        raise OptionError("inputs_embeds cannot be decoded in trees; pass input_ids")
    if model.training:
        raise OptionError("the model is in training mode, so its forwards are random; call model.eval() first")
    if streamer is not None and batch > 1:
        raise OptionError("a streamer takes one text; use a batch of one")


def _padding(mask: Tensor | None, row: int) -> int:
    """How many padding tokens stand before row `row`; raises `PromptError` when they stand elsewhere."""
    if mask is None:
        return 0
    bits = mask[row].bool()
    padding = int((~bits).sum())
    if not bits[padding:].all():
        raise PromptError(
            "attention_mask hides tokens behind the start; pad on the left (tokenizer.padding_side='left')"
        )
    if padding == len(bits):
        raise PromptError("attention_mask hides a whole prompt; give every row at least one token")
    return padding


def _output(rows: list[_Row], input_ids: Tensor, config: GenerationConfig) -> Any:
    pad = config.pad_token_id
    if pad is None:
        ends = config.eos_token_id
        pad = ends[0] if isinstance(ends, list) and ends else ends if isinstance(ends, int) else 0
    longest = max(len(row.sequence.generated) for row in rows)
    new = [row.sequence.generated + [pad] * (longest - len(row.sequence.generated)) for row in rows]
    sequences = torch.cat([input_ids, torch.tensor(new, device=input_ids.device)], 1)
    return GenerateDecoderOnlyOutput(sequences=sequences) if config.return_dict_in_generate else sequences
