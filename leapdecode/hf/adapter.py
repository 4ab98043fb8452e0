"""The callable that `generate(custom_generate=...)` runs instead of its own loop."""

import contextlib
import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList
from transformers.generation.stopping_criteria import StopStringCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from leapdecode.core import Stats
from leapdecode.engine import Engine
from leapdecode.engine.places import Open, open_cache
from leapdecode.engine.schedulers.batched import Batched
from leapdecode.engine.shared import Place, Shared
from leapdecode.errors import OptionError
from leapdecode.hf.cache import Keeping
from leapdecode.hf.checks import check_config, check_inputs, check_unseen, padding_of
from leapdecode.hf.rows import Row
from leapdecode.hf.runners import RUNNERS
from leapdecode.methods.base import Method
from leapdecode.methods.registry import DEFAULT, make
from leapdecode.model.cache_names import CACHE
from leapdecode.model.load import check_fallback
from leapdecode.model.plain import PlainRunner
from leapdecode.model.runner import Runner
from leapdecode.pools.ngrams import NgramPool
from leapdecode.pools.store import Store


def decoding(
    method: str = DEFAULT,
    *,
    draft: Any = None,
    streamer: Any = None,
    fallback: str | bool | None = None,
    **options: Any,
) -> "Decoding":
    """A `custom_generate` callable that decodes with `method` and its `options`.

    Greedy text equals transformers' own. Sampled text has its distribution, not its draws, and is
    fixed by `torch.manual_seed`. GenerationConfig, stopping criteria (asked after every token),
    `return_dict_in_generate` and left-padded batches work as in transformers. Beams, `output_*`
    flags, prefilled caches and inputs other than text are refused by name. `output_*` flags that
    the model's own configuration sets are ignored.

    What the model's `prepare_inputs_for_generation` adds to every forward is passed on where it is
    constant. Where it depends on the text, as with PEFT's learnt prompts, the model is refused.

    A logits processor sees its context in its own row of the batch, and copies in the others. An
    error that it raises at a guess counts only where the text takes that guess. One that keeps
    state from call to call is called once per token, and the text is decoded plainly, with a
    warning.

    Keys and values are always cached, whatever `use_cache` says. `return_dict_in_generate` gives
    them under transformers' own name (`cache`, before 5.24 `past_key_values`), and an empty cache
    that was passed in is filled where transformers marks it as passed in. Rows that end at
    different lengths, and `fallback`, give None instead.

    `stats` holds one `Stats` per row of the last call.
    """
    check_fallback(fallback)
    return Decoding(make(method, options), draft, streamer, fallback)


class Decoding:
    """A configured decoding method in the form that `generate(custom_generate=...)` calls."""

    def __init__(
        self, method: Method, draft: Any, streamer: Any, fallback: str | bool | None
    ) -> None:
        if method.needs_draft and draft is None:
            way_out = f"pass decoding({method.name!r}, draft=model)"
            raise OptionError(f"method {method.name!r} needs a draft model; {way_out}")
        if draft is not None and not isinstance(draft, torch.nn.Module):
            way_out = "load it with AutoModelForCausalLM.from_pretrained"
            raise OptionError(f"draft takes a loaded model, not {type(draft).__name__}; {way_out}")
        self.method, self.draft, self.streamer, self.fallback = method, draft, streamer, fallback
        self.stats: list[Stats] = []
        # what the option `history` keeps from call to call
        self.pools: dict[Place, NgramPool] = {}
        self.stores: dict[Place, Store] = {}

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
        """`model.generate` with this decoding, and with the streamer and the stop strings.

        Raises `OptionError` for what `model.generate` would drop without a word.
        """
        check_unseen(arguments)
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
            arguments |= {"stopping_criteria": criteria, "custom_generate": bound}
            return generate_of(model)(inputs, **arguments)
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
        processors = logits_processor or LogitsProcessorList()
        criteria = stopping_criteria or StoppingCriteriaList()
        check_config(config, model, self.streamer, len(input_ids))
        with self.models(model) as models:
            check_inputs(input_ids, model_kwargs)
            return self._decode(models, input_ids, processors, criteria, config, model_kwargs)

    @contextlib.contextmanager
    def models(self, model: Any) -> Iterator[dict[str, Any]]:
        """The runners of `model` and of the draft by name, as an engine takes them."""
        with contextlib.ExitStack() as using:
            models = {"target": using.enter_context(RUNNERS.of(model, self.fallback))}
            if self.draft is not None and (self.method.needs_draft or self.method.takes_draft):
                # a draft that cannot be rolled back is no draft
                models["draft"] = using.enter_context(RUNNERS.of(self.draft, False))
            if len(sizes := {runner.vocabulary for runner in models.values()}) > 1:
                message = f"draft and target have other vocabularies ({sizes})"
                raise OptionError(f"{message}; choose a draft with the target's")
            yield models

    def _decode(
        self, models: dict[str, Any], input_ids: Tensor, processors: LogitsProcessorList,
        criteria: StoppingCriteriaList, config: GenerationConfig, model_kwargs: dict[str, Any],
    ) -> Any:  # fmt: skip
        target, mask = models["target"], model_kwargs.get("attention_mask")
        seed = int(torch.randint(1 << 62, (1,))) if config.do_sample else 0
        rows = [
            Row(input_ids, row, padding_of(mask, row), processors, criteria, target.max_length)
            for row in range(len(input_ids))
        ]
        for row in rows:
            row.batch = rows
            row.begin(config, seed)
        cache = model_kwargs.get(CACHE)
        marked = getattr(cache, "_is_user_defined", False)
        wanted = cache is not None and (config.return_dict_in_generate or marked)
        kept = Keeping(target) if wanted and isinstance(target, Runner) else None
        shared = Shared(target, models.get("draft"))
        shared.pools, shared.stores = self.pools, self.stores
        self._run(models, shared, rows, input_ids, kept.open_cache if kept else open_cache)
        self.stats = [row.sequence.stats for row in rows]
        _settle(rows, target)
        keeps = kept is not None and kept.runner.plain is None  # else it went on plainly
        filled = kept is not None and keeps and kept.fill(cache, rows)
        return _output(rows, input_ids, config, cache if filled else None)

    def _run(
        self,
        models: dict[str, Any],
        shared: Shared,
        rows: list[Row],
        input_ids: Tensor,
        open_cache: Open,
    ) -> None:
        if self.streamer is not None:
            self.streamer.put(input_ids.cpu())
        engine = Engine(models, Batched(len(rows)), shared, open_cache=open_cache)
        try:
            for row in rows:
                engine.add(row.request(self.method))
            self._step(engine)
            for row in rows:
                row.sequence = engine.result(row.id).sequence
        finally:  # an error, too, ends what a reader waits for
            engine.close()
            if self.streamer is not None:
                self.streamer.end()

    def _step(self, engine: Engine) -> None:
        """Decode all rows; what ends one of them with an error ends the call."""
        while engine.busy:
            for event in engine.step():
                if event.step is not None and self.streamer is not None:
                    for token in event.step.tokens:
                        self.streamer.put(torch.tensor([token]))
                if event.finish_reason == "error":
                    error = engine.result(event.request_id).sequence.error
                    assert error is not None, "what ended with an error has one"
                    raise error


def generate_of(model: Any) -> Callable[..., Any]:
    """A model's `generate` by its class.

    `from_pretrained(..., trust_remote_code=True)` puts a repository's own generation code in its
    place, a partial function. That may be the code that called this decoding.
    """
    if isinstance(model.generate, functools.partial):
        return functools.partial(type(model).generate, model)
    return cast(Callable[..., Any], model.generate)


def _settle(rows: list[Row], target: Runner | PlainRunner) -> None:
    """Warn, once a call, of texts that the context ended."""
    cut = [row for row in rows if row.cut]
    if cut:
        warnings.warn(
            f"{len(cut)} of {len(rows)} texts ended at the model's context of "
            f"{target.max_length} tokens, before max_length={cut[0].allowed}"
            f"{f' ({target.note})' if target.note else ''}; shorten the prompt or ask for fewer "
            "tokens, or drop custom_generate: transformers' own loop goes on beyond the context",
            stacklevel=4,
        )


def _output(rows: list[Row], input_ids: Tensor, config: GenerationConfig, cache: Any) -> Any:
    pad = config.pad_token_id
    if pad is None:
        ends = config.eos_token_id
        pad = ends[0] if isinstance(ends, list) and ends else ends if isinstance(ends, int) else 0
    texts = [row.generated for row in rows]
    longest = max(map(len, texts))
    new = [text + [pad] * (longest - len(text)) for text in texts]
    sequences = torch.cat([input_ids, torch.tensor(new, device=input_ids.device)], 1)
    if not config.return_dict_in_generate:
        return sequences
    return GenerateDecoderOnlyOutput(sequences=sequences, **{CACHE: cache})
