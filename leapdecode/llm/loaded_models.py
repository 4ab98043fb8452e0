"""The models of an `LLM`: loaded, prepared for decoding, packed later, and forgotten."""

import os
import threading
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from leapdecode.core import SamplingParams
from leapdecode.engine import Engine
from leapdecode.engine.shared import Shared
from leapdecode.llm.checks import (
    check_loading,
    check_process,
    check_tokenizer,
    check_vocabularies,
)
from leapdecode.llm.loading import (
    LaterPacking,
    end_tokens,
    holds_half,
    load,
    packs_freely,
    prepacks,
)
from leapdecode.llm.model_defaults import ModelDefaults
from leapdecode.model.load import make_exact, prepare
from leapdecode.model.memory import CacheMemory, default_limit
from leapdecode.model.names import AUTO, INT8, check_generation_config
from leapdecode.model.plain import PlainRunner
from leapdecode.model.ranks import ALONE, check_whole, joined
from leapdecode.model.runner import Runner
from leapdecode.model.sizes import parse_size


class LoadedModels:
    """A target, its tokenizer and perhaps a draft, with what decodes them; arguments: see `LLM`."""

    def __init__(
        self,
        model: Any = "demo",
        tokenizer: Any = None,
        *,
        draft: Any = None,
        device: str = "auto",
        dtype: Any = "auto",
        attn_implementation: str = "auto",
        trust_remote_code: bool = False,
        fallback: str | bool | None = None,
        exact: str | bool = "auto",
        prepack: str | bool = "auto",
        quantize: str | None = None,
        compile: bool = False,
        cache_memory: int | str | None = None,
        prefix_cache: bool = True,
        tensor_parallel: bool = False,
        generation_config: str = "auto",
        keep_gguf: bool = True,
        draft_dtype: Any = "auto",
    ) -> None:
        check_tokenizer(tokenizer)
        check_generation_config(generation_config)
        limit = None if cache_memory is None else parse_size(cache_memory)
        check_loading(exact, prepack, quantize, compile, draft_dtype)
        ranks = joined(device) if tensor_parallel else ALONE
        check_whole(ranks, compile=compile, quantize=quantize, prepack=prepack is True)
        options = (device, dtype, attn_implementation, trust_remote_code, keep_gguf)
        draft = "demo" if draft is None and model == "demo" else draft
        self.name = str(model) if isinstance(model, str | Path) else type(model).__name__
        computes_otherwise = compile or quantize is not None or tensor_parallel
        free = packs_freely(device, dtype, prepack, computes_otherwise)
        half = free and holds_half()
        self._load_target = partial(load, model, "target", options, tokenizer, ranks)
        loaded_in = dtype if draft_dtype in (AUTO, INT8) else draft_dtype
        draft_options = (device, loaded_in, *options[2:])
        self._load_draft = partial(load, draft, "draft", draft_options, None)
        free_draft = free and draft_dtype == AUTO
        self.model, self.tokenizer = self._load_target(half=half)
        self.draft: Any = None
        if draft is not None:
            self.draft, draft_tokenizer = self._load_draft(half=half and free_draft)
            check_vocabularies(self.tokenizer, draft_tokenizer, self.model, self.draft)
        self.lock = threading.RLock()
        self._prepare_target = partial(
            prepare,
            fallback=fallback,
            exact=exact,
            prepack=ranks.size == 1 and prepacks(prepack, model),
            compiled=compile,
            quantize=quantize,
            ranks=ranks,
            turn=self.lock,
        )
        self._prepare_draft = partial(
            prepare,
            fallback=False,
            prepack=ranks.size == 1 and prepacks(prepack, draft),
            compiled=compile,
            quantize=INT8 if draft_dtype == INT8 else quantize,
            ranks=ranks,
            role="draft",
            turn=self.lock,
        )
        self.ranks = ranks
        self.cache_limit = limit
        self.keeps_prefixes = prefix_cache
        self.wanted_exact = exact
        self.pid = os.getpid()
        self.generation_config = generation_config
        self.engines: WeakSet[Engine] = WeakSet()  # of texts that have begun
        self.has_begun = False  # whether there was a first text
        self.packing = LaterPacking(
            self.model if half and isinstance(model, str | Path) else None,
            self.draft if free_draft and isinstance(draft, str | Path) else None,
        )
        self._prepare()
        self.model_defaults.warn()

    def _prepare(self) -> None:
        """Make what decodes the models as they are now."""
        self.prepared = self._prepare_target(self.model)
        self.draft_runner = None if self.draft is None else self._prepare_draft(self.draft)
        limit = self.cache_limit or default_limit(self.runner.device)
        self.memory = CacheMemory(None if limit is None else self.ranks.least(limit))
        for runner in (self.prepared, self.draft_runner):
            if isinstance(runner, Runner):
                runner.keep_within(self.memory, self.keeps_prefixes)
        self.shared = Shared(self.runner, self.draft_runner, self.tokenizer, self.memory)

    def pack(self) -> None:
        """Pack weights that would be packed before the second text; nothing where there are none,
        or while a text is under way.

        Models of more than 150 million weights decode their first text by the weights as they were
        loaded, so that it begins at once. Call this where later texts must be the first one's to
        the last bit, or are compared with it in time.
        """
        check_process(self.pid)
        with self.lock:
            packing = self.packing
            if not packing.waits or any(engine.busy for engine in self.engines):
                return
            if packing.draft_waits:
                self._prepare_draft = partial(self._prepare_draft, quantize=INT8)
            if not packing.pack():
                self.model, _ = self._load_target()
            self._prepare()

    def _begin(self) -> None:
        """Before a text: the first one does not wait for weights to be packed."""
        if self.has_begun:
            self.pack()
        self.has_begun = True

    @property
    def runner(self) -> Runner | PlainRunner:
        """What decodes the target."""
        return self.prepared.plain or self.prepared

    @property
    def plain_reason(self) -> str | None:
        """Why texts are decoded plainly; None while nothing has shown that they must be."""
        return self.runner.reason if isinstance(self.runner, PlainRunner) else None

    @property
    def exact(self) -> bool:
        """Whether texts are decoded exactly, see `leapdecode.model.exact`."""
        return self.runner.exact is not None

    @property
    def models(self) -> dict[str, Any]:
        """The runners, as an engine takes them."""
        return {"target": self.runner, "draft": self.draft_runner}

    @property
    def end_tokens(self) -> frozenset[int]:
        """Ids that end a text: those of the generation config, or the tokenizer's."""
        return end_tokens(self.model, self.tokenizer)

    @property
    def model_defaults(self) -> ModelDefaults:
        """What the model's generation config says now of how tokens are chosen."""
        config = self.model.generation_config if self.generation_config == "auto" else None
        return ModelDefaults(config, self.end_tokens, self.runner.device)

    def filled(self, sampling: SamplingParams, prompt_length: int) -> SamplingParams:
        """`sampling` with the model's defaults where it says nothing, for a prompt of so many
        tokens.
        """
        return self.model_defaults.fill(sampling, prompt_length)

    def reset_prefix_cache(self) -> None:
        """Forget what is kept of texts that have ended."""
        check_process(self.pid)
        with self.lock:
            for runner in (self.prepared, self.draft_runner):
                if isinstance(runner, Runner) and runner.prefixes is not None:
                    runner.prefixes.reset()

    def forget(self) -> None:
        """Use nothing again that was computed or measured before.

        Weights that are trained or loaded anew, adapters that are switched or merged, and hooks are
        noticed when the next text starts: it takes nothing over from texts before. Call this after
        changes that cannot be seen from outside: a few values of a large weight written through
        `.data`, weights that are offloaded, what the model's code reads from elsewhere.

        Keys and values of earlier texts are dropped, and what methods have learnt. Weights are
        packed anew. How forwards are shaped for exact decoding is found out anew, which takes up to
        half a minute; so this also brings exact decoding back after an adapter was added.

        Raises `UnsupportedModel` where the model was loaded with `exact=True` and cannot be decoded
        exactly any more.
        """
        check_process(self.pid)
        with self.lock:
            self.shared.forget()
            for runner in (self.runner, self.draft_runner):
                if isinstance(runner, Runner):
                    runner.forget()
            if self.wanted_exact and isinstance(self.runner, Runner):
                make_exact(self.runner, self.wanted_exact, anew=True)
