"""The options that choose a model, once for all commands."""

import functools
import inspect
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer

from leapdecode.cli.words import may_be_model, model_and_prompt, only_model, with_roles
from leapdecode.errors import ModelUnavailable, OptionError
from leapdecode.methods import find
from leapdecode.model import embedded
from leapdecode.model.location import check_model
from leapdecode.model.names import (
    INT8,
    check_attention,
    check_generation_config,
    check_quantized,
    full_device,
    full_dtype,
)
from leapdecode.model.sizes import parse_size
from leapdecode.model.waits import BARS, Waiting
from leapdecode.plain import escape

ModelOption = Annotated[
    str,
    typer.Option("--model", "-m", help="demo (a small pair), Hugging Face name, folder, GGUF file"),
]
DraftOption = Annotated[
    str | None,
    typer.Option(
        "--draft", help="draft model with the same tokenizer, as --model; bench: several, by comma"
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(help="auto, cpu, gpu, cuda:1, ..., offload (what does not fit)"),
]
DtypeOption = Annotated[
    str, typer.Option(help="auto, float32, float64, bfloat16, float16, or in short: fp32, bf16")
]
DraftDtypeOption = Annotated[
    str,
    typer.Option(
        metavar="DTYPE",
        help="of the draft: int8, or as --dtype; auto: int8 for larger ones where the CPU computes "
        "so faster. The text is the same",
    ),
]
AttentionOption = Annotated[str, typer.Option("--attn", help="auto, sdpa or eager")]
TrustOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="run Python code that comes with the model")
]
FallbackOption = Annotated[
    bool,
    typer.Option(
        "--fallback/--no-fallback", help="decode plainly, or refuse, what cannot verify token trees"
    ),
]
CompileOption = Annotated[
    bool, typer.Option("--compile", help="compile small forwards: slower to load, faster steps")
]
ExactOption = Annotated[
    bool | None,
    typer.Option(
        "--exact/--no-exact",
        help="bit for bit the same text with every method, batch and neighbour; default: where it "
        "is cheap",
    ),
]
PrepackOption = Annotated[
    bool | None,
    typer.Option(
        "--prepack/--no-prepack",
        help="on a CPU, copies of the weights in a faster layout; default: where that is faster",
    ),
]
QuantizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="int8",
        help="compute in 8-bit integers, on a CPU: faster for models of half a billion parameters "
        "and more; the text is the quantized model's",
    ),
]
CacheMemoryOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="most memory for cached tokens, as 512MB or 2GiB; default: 40% of what is free",
    ),
]
GenerationConfigOption = Annotated[
    str,
    typer.Option(
        metavar="auto|ignore",
        help="whether the model's generation config says how tokens are chosen where no option "
        "does",
    ),
]
NoKeepOption = Annotated[
    bool,
    typer.Option(
        "--no-keep",
        help="do not keep the dequantized weights of a GGUF file in the cache folder for later "
        "starts",
    ),
]
ARGUMENT = "models"
WORDS = {
    "MODEL": "the model, in place of -m",
    "[MODEL] PROMPT": "the text to continue, - for that of stdin, its last newline included; "
    "before it perhaps the model, in place of -m. With -p PROMPT it is the model alone",
}


def processes() -> int:
    """How many processes `torchrun` has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", 1)) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def first_process() -> bool:
    """Whether this process is the one that shows and writes."""
    return processes() == 1 or os.environ["RANK"] == "0"


@dataclass(frozen=True)
class Models:
    """A model, its draft, and how they are loaded, as a command line says.

    Raises `OptionError` and `ModelUnavailable` for what is known to be wrong without loading it.
    """

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

    def __post_init__(self) -> None:
        full_device(self.device)
        full_dtype(self.dtype)
        if self.draft_dtype != INT8:
            full_dtype(self.draft_dtype)
        check_attention(self.attn)
        check_quantized(self.quantize)
        check_generation_config(self.generation_config)
        if self.cache_memory is not None:
            parse_size(self.cache_memory)
        for name in (self.model, *several_drafts(self.draft)):
            check_model(name)

    @property
    def has_draft(self) -> bool:
        """Whether there will be a draft model; the demo pair has one of its own."""
        return self.draft is not None or self.model == "demo"

    def check_drafts(self, methods: Iterable[str]) -> None:
        """Raise `OptionError` where a method needs a draft model and there will be none."""
        for name in methods:
            if find(name).needs_draft and not self.has_draft:
                raise OptionError(f"method {name!r} needs a draft model; pass --draft MODEL")

    @property
    def loading(self) -> dict[str, Any]:
        """Arguments of `LLM` that say how a model given by name is loaded."""
        return {
            "device": self.device, "dtype": self.dtype, "attn_implementation": self.attn,
            "trust_remote_code": self.trust_remote_code, "keep_gguf": not self.no_keep,
            "draft_dtype": self.draft_dtype,
        }  # fmt: skip

    def open(
        self,
        fallback: bool | None = None,
        prefix_cache: bool = True,
        split: bool = False,
        packed: bool = True,
    ) -> Any:
        """Load the models as an `LLM`; stderr says what takes time, and whether it decodes plainly.

        Args:
            fallback: in place of --fallback.
            prefix_cache: as `LLM` takes it.
            split: whether the processes that torchrun has started share the model.
            packed: whether all weights are packed now. If not, those of a large model may be packed
                after its first text.

        Raises `OptionError` under torchrun unless `split`.
        """
        several = processes() > 1
        if several and not split:
            raise OptionError(
                "this command runs in one process; "
                "torchrun serves generate, bench, tree compare, doctor and cllm train"
            )
        if embedded.NAME in (self.model, self.draft):
            embedded.folder()  # raises where the demo pair is not installed
        _show_log()
        with Waiting("importing torch and transformers"):
            import transformers.utils.logging as transformers_logging

            from leapdecode.llm import LLM
        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        falls_back = self.fallback if fallback is None else fallback
        llm = LLM(
            self.model,
            draft=self.draft,
            fallback=None if falls_back else False,
            exact="auto" if self.exact is None else self.exact,
            prepack="auto" if self.prepack is None else self.prepack,
            quantize=self.quantize,
            compile=self.compile,
            cache_memory=self.cache_memory,
            prefix_cache=prefix_cache,
            tensor_parallel=several,
            generation_config=self.generation_config,
            **self.loading,
        )
        if packed:
            llm.pack()
        if llm.runner.note:
            typer.echo(f"note: {llm.runner.note}", err=True)
        return llm


def several_drafts(draft: str | None) -> list[str]:
    """The models that `--draft A,B` names; a folder may have a comma in its name."""
    if draft is None or os.path.exists(draft):
        return [] if draft is None else [draft]
    return [name.strip() for name in draft.split(",") if name.strip()]


def takes_model(
    *without: str, words: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `Models` in place of its argument `models`.

    The command is called with all of them as one `Models`. Options named in `without` are left out;
    without "draft" there is no "draft_dtype" either.

    `words` are the arguments that may name the model in place of -m, a key of `WORDS`. Where a
    prompt is one of them, the command has an option `prompt`.
    """
    if "draft" in without:
        without = (*without, "draft_dtype")
    hints = get_type_hints(Models, include_extras=True)
    model_options = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(Models)
        if field.name not in without
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            model_values = {option.name: values.pop(option.name) for option in model_options}
            if "fallback" in without:  # such commands are of no use to a model without trees
                model_values["fallback"] = False
            model = None if words is None else _model_of_words(values, model_values["model"])
            if model is not None:
                model_values["model"] = model
            try:
                command(**values, **{ARGUMENT: Models(**model_values)})
            except ModelUnavailable as error:
                if model is None or model not in str(error):
                    raise
                raise with_roles(error, model, values.get("prompt")) from error

        parameters = list(inspect.signature(command, eval_str=True).parameters.values())
        position = [parameter.name for parameter in parameters].index(ARGUMENT)
        parameters[position : position + 1] = model_options
        if words is not None:
            parameters += _words_parameters(words)
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _words_parameters(words: str) -> list[inspect.Parameter]:
    """The parameters that `_model_of_words` reads."""
    argument = typer.Argument(metavar=words, help=WORDS[words], show_default=False)
    annotations = {"context": typer.Context, "words": Annotated[list[str] | None, argument]}
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name == "context" else None,
            annotation=annotation,
        )
        for name, annotation in annotations.items()
    ]


def _model_of_words(values: dict[str, Any], model: str) -> str | None:
    """The model that the arguments name; `values` lose them, and get the prompt among them.

    `model` is the value of -m.
    """
    context = values.pop("context")
    words = values.pop("words") or []
    is_stated = context.get_parameter_source("model").name == "COMMANDLINE"
    stated = model if is_stated else None
    program = context.command_path
    if "prompt" not in values:
        return only_model(program, words, stated)
    named, prompt = model_and_prompt(program, words, values["prompt"], stated)
    values["prompt"] = prompt
    if named is None and not is_stated and may_be_model(prompt):
        note = f"note: {prompt!r} was taken as the prompt; a model goes before it"
        typer.echo(f"{note}: {program} MODEL PROMPT", err=True)
    return named


def _show_log() -> None:
    """Print what the library logs on stderr."""
    log = logging.getLogger("leapdecode")
    log.handlers = [_Notes()]
    log.setLevel(logging.INFO)


class _Notes(logging.Handler):
    """A line for each record above the progress bars, with the traceback of an error below it."""

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "note: " if record.levelno > logging.INFO else ""
        BARS.print(f"{prefix}{record.getMessage()}")
        if record.exc_info:
            BARS.print(escape(logging.Formatter().formatException(record.exc_info)))
