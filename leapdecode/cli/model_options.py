"""The options that choose a model, once for all commands."""

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from leapdecode.cli.common import (
    AttentionOption,
    CacheMemoryOption,
    CompileOption,
    DeviceOption,
    DraftDtypeOption,
    DraftOption,
    DtypeOption,
    ExactOption,
    FallbackOption,
    GenerationConfigOption,
    ModelOption,
    NoKeepOption,
    PrepackOption,
    QuantizeOption,
    TrustOption,
    open_llm,
)
from leapdecode.errors import OptionError

ARGUMENT = "models"


def processes() -> int:
    """How many processes `torchrun` has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def first_process() -> bool:
    """Whether this process is the one that shows and writes."""
    return processes() == 1 or os.environ["RANK"] == "0"


@dataclass(frozen=True)
class Models:
    """A model, its draft, and how they are loaded, as a command line says."""

    model: ModelOption = "demo"
    draft: DraftOption = None
    device: DeviceOption = "auto"
    dtype: DtypeOption = "auto"
    attn: AttentionOption = "auto"
    trust_remote_code: TrustOption = False
    compile: CompileOption = False
    exact: ExactOption = None
    prepack: PrepackOption = None
    quantize: QuantizeOption = None
    cache_memory: CacheMemoryOption = None
    fallback: FallbackOption = True
    generation_config: GenerationConfigOption = "auto"
    no_keep: NoKeepOption = False
    draft_dtype: DraftDtypeOption = "auto"

    @property
    def has_draft(self) -> bool:
        """Whether there will be a draft model; the embedded pair has one of its own."""
        return self.draft is not None or self.model == "demo"

    def open(
        self,
        fallback: bool | None = None,
        prefix_cache: bool = True,
        split: bool = False,
        packed: bool = True,
    ) -> Any:
        """The LLM; with `split` the processes that torchrun has started share it. If not `packed`,
        a large model's weights may be packed behind its first text.

        Raises `OptionError` where there are several and the command is one for a single process.
        """
        several = processes() > 1
        if several and not split:
            raise OptionError(
                "this command runs in one process; torchrun serves generate, doctor and cllm train"
            )
        return open_llm(
            self.model, self.draft, self.device, self.dtype, self.attn, self.trust_remote_code,
            self.fallback if fallback is None else fallback, compiled=self.compile,
            exact=self.exact, prepack=self.prepack, cache_memory=self.cache_memory,
            prefix_cache=prefix_cache, quantize=self.quantize, tensor_parallel=several,
            generation_config=self.generation_config, keep_gguf=not self.no_keep, packed=packed,
            draft_dtype=self.draft_dtype,
        )  # fmt: skip


def takes_model(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `Models`, but those named, in place of its argument `models`;
    without "draft" it has none of how that is loaded.

    The command is called with all of them as one object.
    """
    if "draft" in without:
        without = (*without, "draft_dtype")
    hints = get_type_hints(Models, include_extras=True)
    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(Models)
        if field.name not in without
    ]  # fmt: skip

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            values = {option.name: given.pop(option.name) for option in options}
            if "fallback" in without:  # such commands are of no use to a model without trees
                values["fallback"] = False
            models = Models(**values)
            command(**given, **{ARGUMENT: models})

        own = list(inspect.signature(command, eval_str=True).parameters.values())
        place = [one.name for one in own].index(ARGUMENT)
        both = [*own[:place], *options, *own[place + 1 :]]
        named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in both]
        run.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in named}
        return run

    return decorate
