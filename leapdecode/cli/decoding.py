"""Options of the commands that decode one text at a time: the method, and how tokens are chosen."""

from typing import Annotated, Any

import typer

MethodOption = Annotated[str, typer.Option(help="see `leapdecode methods`")]
OptionOption = Annotated[
    list[str] | None, typer.Option("-o", metavar="KEY=VALUE", help="an option of the method")
]
MaxTokensOption = Annotated[int, typer.Option(help="most tokens to generate")]
TemperatureOption = Annotated[float, typer.Option(help="0 is greedy")]
# those without a default take the model's, where its generation config has one
TopKOption = Annotated[int | None, typer.Option(help="keep the k most likely tokens; 0 keeps all")]
TopPOption = Annotated[
    float | None, typer.Option(help="keep the tokens that make up this probability")
]
MinPOption = Annotated[
    float | None, typer.Option(help="keep tokens at least this fraction as likely as the best")
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
    str | None, typer.Option(metavar="TEXT", help="a system message that goes before")
]


def stated(**options: Any) -> dict[str, Any]:
    """The options that were given; the others are left to the model's defaults."""
    return {name: value for name, value in options.items() if value is not None}
