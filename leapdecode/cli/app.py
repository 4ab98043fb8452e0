"""`leapdecode`: the commands, each in its own file."""

import typer

from leapdecode import __version__
from leapdecode.cli.demo import demo
from leapdecode.cli.doctor import doctor
from leapdecode.cli.generate import generate
from leapdecode.cli.methods import methods

app = typer.Typer(
    name="leapdecode",
    help="Decode several tokens per forward pass, without changing one character of the output.",
    epilog="Start with: leapdecode demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leapdecode {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="show the version and exit"
    ),
) -> None:
    """Decode several tokens per forward pass, without changing one character of the output."""


for command in (demo, generate, methods, doctor):
    app.command()(command)
