"""What a command line states beside a preset: it counts, or it is refused; nothing is dropped."""

from collections.abc import Collection, Mapping
from dataclasses import fields

import typer

from leapdecode.cli.model_options import Models
from leapdecode.errors import OptionError

# every preset takes these: how models are loaded, and where results go
ALWAYS = frozenset(
    [*(field.name for field in fields(Models)), "preset", "output", "resume", "json"]
)


def stated_options(context: typer.Context) -> dict[str, str]:
    """The options that the command line states, as they are written there, by parameter."""
    stated = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is not None and source.name == "COMMANDLINE":
            stated[str(parameter.name)] = max(parameter.opts, key=len)
    return stated


def check_taken(stated: Mapping[str, str], takes: Collection[str], measuring: str) -> None:
    """Raise `OptionError` for a stated option that the `measuring` has no use for."""
    for name, option in stated.items():
        if name not in takes and name not in ALWAYS:
            raise OptionError(f"{measuring} takes no {option}; leave it out")
