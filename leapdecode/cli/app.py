"""`leapdecode`: the commands, each in its own file."""

import os
import sys
from typing import Any

import typer

from leapdecode import __version__
from leapdecode.cli.bench import bench
from leapdecode.cli.chat import chat
from leapdecode.cli.cllm import cllm
from leapdecode.cli.cllm_evaluate import evaluate
from leapdecode.cli.cllm_interpolate import interpolate
from leapdecode.cli.cllm_train import train
from leapdecode.cli.cllm_view import view
from leapdecode.cli.demo import demo
from leapdecode.cli.distill import distill
from leapdecode.cli.doctor import doctor
from leapdecode.cli.fastcot import fastcot
from leapdecode.cli.fastcot_compare import compare as compare_answers
from leapdecode.cli.generate import generate
from leapdecode.cli.methods import methods
from leapdecode.cli.model_options import first_process
from leapdecode.cli.report import report
from leapdecode.cli.serve import PREFIX, serve
from leapdecode.cli.tree import tree
from leapdecode.cli.tree_compare import compare
from leapdecode.cli.tune import tune
from leapdecode.cli.waiting_threads import CORES

# typer bundles its own click or uses the installed one, by version
UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="leapdecode",
    help="Decode several tokens per forward pass, without changing one character of the output.",
    epilog="Start with: leapdecode demo",
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


for command in (demo, generate, chat, bench, report, tune, methods, doctor, distill):
    app.command()(command)
app.command(context_settings={"auto_envvar_prefix": PREFIX})(serve)
tree.command()(compare)
app.add_typer(tree)
fastcot.command("compare")(compare_answers)
app.add_typer(fastcot)
cllm.command()(train)
cllm.command()(evaluate)
cllm.command()(view)
cllm.command()(interpolate)
app.add_typer(cllm)


def main() -> None:
    """Run a command; a wrong command line is one line on stderr and exit code 2."""
    CORES.let_threads_sleep()
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    if not first_process():  # the first one shows what all have decoded
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        code = app(prog_name="leapdecode", standalone_mode=False)
    except UsageError as error:
        message = " ".join(error.format_message().split())
        typer.echo(f"error: {message}; see leapdecode --help", err=True)
        code = 2
    except typer.Abort:
        typer.echo("\ninterrupted", err=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
