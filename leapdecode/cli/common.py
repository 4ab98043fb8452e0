"""What all commands share: model options, error lines, JSON, `-o KEY=VALUE`."""

import dataclasses
import functools
import json
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from leapdecode.errors import LeapdecodeError, OptionError, UnknownName, with_suggestions
from leapdecode.methods import find
from leapdecode.model.waits import BARS, Waiting

ModelOption = Annotated[
    str,
    typer.Option(
        "--model", "-m", help="embedded pair (demo), Hugging Face name, folder, GGUF file"
    ),
]
DraftOption = Annotated[
    str | None, typer.Option("--draft", help="draft model with the same tokenizer, as --model")
]
DeviceOption = Annotated[
    str,
    typer.Option(help="auto, cpu, cuda, cuda:1, ..., offload (what does not fit)"),
]
DtypeOption = Annotated[str, typer.Option(help="auto, float32, float64, bfloat16 or float16")]
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
    bool, typer.Option("--trust-remote-code", help="run code that comes with the model")
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
BUDGET = typer.Option(
    "--budget",
    "--row-budget",  # its former name
    metavar="N|auto|none",
    help="most tokens in a forward, per text; auto: as many as pay on this machine; none: all, as "
    "in the papers",
)
BudgetOption = Annotated[str, BUDGET]
OtherBudgetOption = Annotated[str | None, BUDGET]  # None: a preset's own
JsonOption = Annotated[
    bool, typer.Option("--json", help="one JSON document on stdout, nothing else there")
]


def reports_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn user errors into one line on stderr and the error's exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except LeapdecodeError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("\ninterrupted", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(0) from None
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            typer.echo(f"error: cannot write the output{where}: {error.strerror}", err=True)
            raise typer.Exit(1) from None

    return run


def parse_options(method: str, pairs: list[str]) -> dict[str, Any]:
    """`-o KEY=VALUE` pairs as the types of the method's fields; raises user errors with
    suggestions.
    """
    return parse_fields(method, find(method).options(), pairs)


def parse_fields(
    owner: str, options: Iterable[dataclasses.Field[Any]], pairs: list[str]
) -> dict[str, Any]:
    """`-o KEY=VALUE` pairs as the types of the owner's fields, as `parse_options`."""
    fields = {field.name: field for field in options}
    parsed: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise OptionError(f"-o {pair!r} is not KEY=VALUE; for example -o window=15")
        if key not in fields:
            raise UnknownName(with_suggestions(f"{owner} has no option {key!r}", key, fields))
        parsed[key] = _value(owner, key, value, fields[key].default)
    return parsed


def _value(owner: str, key: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise OptionError(f"{owner}: option {key}={value!r} must be true or false")
        return value.lower() in ("true", "1", "yes")
    if isinstance(default, int | float):
        try:
            return type(default)(value)
        except ValueError:
            kind = "whole number" if isinstance(default, int) else "number"
            raise OptionError(f"{owner}: option {key}={value!r} must be a {kind}") from None
    return value


def parse_budget(value: str) -> int | str:
    """`--budget` as a number, "auto" or "none"."""
    if value in ("auto", "none"):
        return value
    try:
        return int(value)
    except ValueError:
        raise OptionError(f"--budget {value!r} must be a whole number, auto or none") from None


def print_json(document: Any) -> None:
    typer.echo(json.dumps(document, ensure_ascii=False))


def open_llm(
    model: str,
    draft: str | None,
    device: str,
    dtype: str,
    attn: str,
    trust: bool,
    fallback: bool,
    compiled: bool = False,
    exact: bool | None = None,
    prepack: bool | None = None,
    cache_memory: str | None = None,
    prefix_cache: bool = True,
    quantize: str | None = None,
    tensor_parallel: bool = False,
    generation_config: str = "auto",
    keep_gguf: bool = True,
    packed: bool = True,
    draft_dtype: str = "auto",
) -> Any:
    """The LLM of a command; stderr says what takes time, and that it decodes plainly if it does."""
    _show_log()
    with Waiting("importing torch and transformers"):
        import transformers.utils.logging as transformers_logging

        from leapdecode.llm import LLM
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    llm = LLM(
        model, draft=draft, device=device, dtype=dtype, attn_implementation=attn,
        trust_remote_code=trust, fallback=None if fallback else False,
        exact="auto" if exact is None else exact,
        prepack="auto" if prepack is None else prepack, quantize=quantize, compile=compiled,
        cache_memory=cache_memory, prefix_cache=prefix_cache, tensor_parallel=tensor_parallel,
        generation_config=generation_config, keep_gguf=keep_gguf, draft_dtype=draft_dtype,
    )  # fmt: skip
    if packed:
        llm.pack()
    if llm.runner.note:
        typer.echo(f"note: {llm.runner.note}", err=True)
    return llm


def _show_log() -> None:
    """Print what the library logs, one line each."""
    log = logging.getLogger("leapdecode")
    log.handlers = [_Notes()]
    log.setLevel(logging.INFO)


class _Notes(logging.Handler):
    """Lines on stderr, above the progress bars if there are any."""

    def emit(self, record: logging.LogRecord) -> None:
        note = "note: " if record.levelno > logging.INFO else ""
        BARS.print(f"{note}{record.getMessage()}")


def check_drafts(llm: Any, methods: Iterable[str]) -> None:
    """Raise `OptionError` where a method needs a draft model and there is none."""
    for name in methods:
        if find(name).needs_draft and llm.draft is None:
            raise OptionError(f"method {name!r} needs a draft model; pass --draft MODEL")


def counting_progress() -> Any:
    """A progress bar with counts and the time that is left, on stderr where that is a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
