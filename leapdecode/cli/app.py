"""`leapdecode`: the commands, each in its own file."""

import os
import sys

import typer

from leapdecode import __version__
from leapdecode.cli.chat import chat
from leapdecode.cli.cllm import cllm, interpolate, view
from leapdecode.cli.cllm_train import train
from leapdecode.cli.commands import Commands, UsageError, usage_error
from leapdecode.cli.common import reports_errors
from leapdecode.cli.demo import demo
from leapdecode.cli.distill import distill
from leapdecode.cli.doctor import doctor
from leapdecode.cli.fastcot import fastcot
from leapdecode.cli.generate import generate
from leapdecode.cli.methods import methods
from leapdecode.cli.model_options import first_process
from leapdecode.cli.serve import PREFIX, serve
from leapdecode.cli.tree import tree
from leapdecode.cli.waiting_threads import CORES
from leapdecode.errors import LeapdecodeError
from leapdecode.plugins import bench_is_missing, bench_part

app = Commands(
    name="leapdecode",
    help="Decode several tokens per forward pass, without changing one character of the output.",
    epilog="Start with: leapdecode demo. Tab completes commands and options after "
    "leapdecode --install-completion.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
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


# commands of leapdecode-bench: the group, the name, what it does
MEASURING = (
    (app, "bench", "Measure methods against plain decoding."),
    (app, "report", "Make the page and the plots of a run anew."),
    (app, "tune", "Find the best options of a method for a model and a task."),
    (tree, "compare", "Compare ways to execute a search."),
    (fastcot, "compare", "Compare ways to answer."),
    (cllm, "evaluate", "Hold a trained model against the one it was trained from."),
)


def _add_bench() -> None:
    """Add the commands of leapdecode-bench; without it, commands that say how to install it."""
    add = bench_part("commands")
    if add is not None:
        add(app, tree, fastcot, cllm)
        return
    for group, name, help_text in MEASURING:
        _add_missing(group, name, help_text)


def _add_missing(group: typer.Typer, name: str, help_text: str) -> None:
    any_arguments = {"ignore_unknown_options": True, "allow_extra_args": True}

    @group.command(
        name, context_settings=any_arguments, help=f"{help_text} Needs leapdecode-bench."
    )
    @reports_errors
    def missing(context: typer.Context) -> None:
        raise bench_is_missing(f"`{context.command_path}`")


for command in (demo, generate, chat, methods, doctor, distill):
    app.command()(command)
app.command(context_settings={"auto_envvar_prefix": PREFIX})(serve)
cllm.command()(train)
_add_bench()
cllm.command()(view)
cllm.command()(interpolate)
for group in (tree, fastcot, cllm):
    app.add_typer(group)


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
        message = usage_error(error)
        typer.echo(f"error: {message}", err=True)
        code = message.exit_code
    except LeapdecodeError as error:
        typer.echo(f"error: {error}", err=True)
        code = error.exit_code
    except typer.Abort:
        typer.echo("\ninterrupted", err=True)
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
