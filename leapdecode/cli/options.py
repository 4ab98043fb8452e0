"""Options that several commands share, and how their values are read."""

from typing import Annotated, Any

import typer

from leapdecode.errors import OptionError
from leapdecode.methods import find
from leapdecode.plugins import parse_fields

# the names of options that other programs have short, for every command
TOKENS = ("--max-tokens", "-n")
TEMPERATURE = ("--temperature", "--temp", "-t")
JsonOption = Annotated[
    bool, typer.Option("--json", help="one JSON document on stdout, nothing else there")
]
RayOption = Annotated[
    bool,
    typer.Option(
        "--ray",
        help="workers on a Ray cluster do the work: the one that RAY_ADDRESS names, or this "
        "machine's cores",
    ),
]
MethodOption = Annotated[str, typer.Option(help="see `leapdecode methods`")]
OptionOption = Annotated[
    list[str] | None, typer.Option("-o", metavar="KEY=VALUE", help="an option of the method")
]
MaxTokensOption = Annotated[int, typer.Option(*TOKENS, help="most tokens to generate")]
TemperatureOption = Annotated[float, typer.Option(*TEMPERATURE, help="0 is greedy")]
# those without a default take the model's, where its generation config has one
TopKOption = Annotated[int | None, typer.Option(help="keep the k most likely tokens; 0 keeps all")]
TopPOption = Annotated[
    float | None, typer.Option(help="keep the tokens that make up this probability")
]
MinPOption = Annotated[
    float | None,
    typer.Option(help="keep tokens with at least this share of the best token's probability"),
]
PenaltyOption = Annotated[
    float | None, typer.Option(help="above 1 makes repeating less likely; 1 changes nothing")
]
SeedOption = Annotated[int, typer.Option(help="equal seeds give equal texts, with every method")]
StopOption = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="end before this; may be repeated")
]
ColorOption = Annotated[
    bool | None,
    typer.Option("--color/--no-color", help="mark what was guessed; default: on a terminal"),
]
SystemOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="system message at the beginning of the conversation"),
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


def stated(**options: Any) -> dict[str, Any]:
    """The options with a value; the others are left to the defaults of the model or the method."""
    return {name: value for name, value in options.items() if value is not None}


def parse_options(method: str, pairs: list[str]) -> dict[str, Any]:
    """`-o KEY=VALUE` pairs as the types of the method's fields; raises user errors with
    suggestions.
    """
    return parse_fields(method, find(method).options(), pairs)


def parse_budget(value: str) -> int | str:
    """`--budget` as a number, "auto" or "none"."""
    if value in ("auto", "none"):
        return value
    try:
        return int(value)
    except ValueError:
        raise OptionError(f"--budget {value!r} must be a whole number, auto or none") from None
