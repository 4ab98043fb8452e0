"""How a command line is read, and what is wrong with one in the library's words."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from leapdecode.errors import LeapdecodeError, OptionError, UnknownName, with_suggestions

# what other programs call a command, and what does it here
ELSEWHERE = {
    ("run", "complete", "completion", "completions", "prompt"): (
        "`{program} generate MODEL PROMPT` continues a prompt, `{program} chat MODEL` talks"
    ),
    ("list", "ls", "models", "show", "ps"): (
        "models have no list here: MODEL is a folder, a GGUF file or a Hugging Face name; "
        "`{program} methods` lists the decoding methods"
    ),
    ("pull", "download", "get", "fetch"): (
        "a model is fetched when it is first used, as in `{program} generate MODEL PROMPT`"
    ),
    ("server", "api", "start", "launch"): "`{program} serve MODEL` starts a server",
    ("benchmark", "eval", "perf"): "`{program} bench` measures",
    ("train", "finetune"): "`{program} cllm train` and `{program} distill` train",
    ("info", "env", "check"): "`{program} doctor` checks a model and this machine",
    ("version",): "`{program} --version` shows the version",
    ("help",): "`{program} --help` lists the commands",
}
# typer bundles its own click or uses the installed one, by version
UsageError: Any = typer.BadParameter.__base__
KINDS: dict[Any, str] = {int: "a whole number", float: "a number"}


class Command(TyperCommand):
    """A command that says in our words that it has no place for an argument."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        """What is left of the arguments; raises `OptionError` where the command takes no more."""
        if context.allow_extra_args:
            return super().parse_args(context, arguments)
        context.allow_extra_args = True
        with errors_of(context):
            extra = super().parse_args(context, arguments)
        if extra and not context.resilient_parsing:
            raise OptionError(see_help(context, self._no_place(context.command_path, extra)))
        return extra

    def collect_usage_pieces(self, context: Any) -> list[str]:
        """What stands behind the command's name in the first line of its help."""
        arguments = [usage_name(param) for param in self.params if is_argument(param)]
        return ["[OPTIONS]", *arguments]

    def _no_place(self, path: str, extra: list[str]) -> str:
        names = [shown_name(param) for param in self.params if is_argument(param)]
        words = " ".join(extra)
        if not names:
            return f"{path} has no place for {words!r}: it takes options alone, as -m MODEL"
        return (
            f"{path} takes {' and '.join(names)}, and has no place for {words!r}; put a text of "
            "several words in quotes"
        )


class Group(TyperGroup):
    """A group of commands that says in our words which there are."""

    def parse_args(self, context: Any, arguments: list[str]) -> list[str]:
        """As typer does it; raises `OptionError` where no command is named."""
        if not arguments and not context.resilient_parsing:
            path = context.command_path
            message = f"{path} needs a command: {' or '.join(self.list_commands(context))}"
            raise OptionError(see_help(context, message))
        with errors_of(context):
            return super().parse_args(context, arguments)

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """The command that the first argument names; raises `UnknownName`."""
        name = arguments[0]
        if self.get_command(context, name) is None and not context.resilient_parsing:
            raise UnknownName(self._unknown(context, name))
        return super().resolve_command(context, arguments)

    def _unknown(self, context: Any, name: str) -> str:
        path = context.command_path
        for names, hint in ELSEWHERE.items():
            if context.parent is None and name.lower() in names:
                return f"{path} has no command `{name}`: {hint.format(program=path)}"
        known = self.list_commands(context)
        return see_help(context, with_suggestions(f"{path} has no command {name!r}", name, known))


class Commands(typer.Typer):
    """Commands that are read by the classes above."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, rich_markup_mode=None, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command, as `typer.Typer.command` does."""
        return super().command(name, **{"cls": Command, **settings})


@contextmanager
def errors_of(context: Any) -> Iterator[None]:
    """Let every error of a command line say which command it is about."""
    try:
        yield
    except UsageError as error:
        error.ctx = error.ctx or context
        raise


def see_help(context: Any, message: str) -> str:
    """`message`, and where the help is."""
    joint = " See" if message.endswith("?") else "; see"
    return f"{message}{joint} {context.command_path} --help"


def is_argument(param: Any) -> bool:
    """Whether a parameter of a command has its place, not a name."""
    return bool(param.param_type_name == "argument")


def shown_name(param: Any) -> str:
    """What errors call a parameter: an argument's name in the help, or the longest name of an
    option.
    """
    if is_argument(param):
        return str(param.metavar or param.name.upper())
    return str(max(param.opts, key=len))


def usage_name(argument: Any) -> str:
    """An argument in the first line of a help, in brackets where it may be left out."""
    name = shown_name(argument)
    return name if argument.required or "[" in name else f"[{name}]"


def usage_error(error: Any) -> LeapdecodeError:
    """What typer says of a wrong command line, in our words."""
    context = error.ctx
    kind = type(error).__name__
    if kind == "NoSuchOption":
        message = _no_option(context, error.option_name)
    elif kind == "BadOptionUsage":
        message = _option_without_value(context, error.option_name)
    elif kind == "MissingParameter" and error.param is not None:
        message = f"{context.command_path} needs {shown_name(error.param)}"
    elif kind == "BadParameter" and error.param is not None:
        message = _bad_value(context, error)
    else:
        message = " ".join(error.format_message().split()).rstrip(".")
    return OptionError(see_help(context, message))


def _no_option(context: Any, name: str) -> str:
    message = f"{context.command_path} has no option {name!r}"
    names = [option for param in context.command.params for option in _options(param)]
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"{message}; did you mean {' or '.join(close)}?"
    if any(is_argument(param) for param in context.command.params):
        return f"{message}; a text that begins with - goes behind --"
    return message


def _options(param: Any) -> Iterable[str]:
    return () if is_argument(param) else (*param.opts, *param.secondary_opts)


def _option_without_value(context: Any, name: str) -> str:
    flags = [
        option
        for param in context.command.params
        if not is_argument(param) and param.is_flag
        for option in _options(param)
    ]
    return f"{name} takes no value" if name in flags else f"{name} needs a value behind it"


def _bad_value(context: Any, error: Any) -> str:
    """Of a value that is no number, or out of its range."""
    name = shown_name(error.param)
    rule = _rule(context.command.callback, error.param.name)
    if rule is None:
        return f"{name}: {error.message.rstrip('.')}"
    if error.__cause__ is None:  # typer before 0.26
        return f"{name} must be {rule}: {error.message.rstrip('.')}"
    return f"{name} {error.__cause__.errors()[0]['input']!r} must be {rule}"


def _rule(callback: Callable[..., Any], name: str) -> str | None:
    """What numbers a command's parameter takes; None where it takes no number."""
    parameter = inspect.signature(callback).parameters.get(name)
    if parameter is None or get_origin(parameter.annotation) is not Annotated:
        return None
    kind, option, *_ = get_args(parameter.annotation)
    numbers = [KINDS[number] for number in (kind, *get_args(kind)) if number in KINDS]
    if not numbers:
        return None
    if option.min is not None and option.max is not None:
        return f"{numbers[0]} from {option.min} to {option.max}"
    return numbers[0] if option.min is None else f"{numbers[0]} of at least {option.min}"
