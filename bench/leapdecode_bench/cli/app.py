"""Adds the commands that measure to `leapdecode`."""

import typer

from leapdecode_bench.cli.bench import bench
from leapdecode_bench.cli.cllm_evaluate import evaluate
from leapdecode_bench.cli.fastcot_compare import compare as compare_answers
from leapdecode_bench.cli.report import report
from leapdecode_bench.cli.tree_compare import compare as compare_trees
from leapdecode_bench.cli.tune import tune


def add_commands(
    app: typer.Typer, tree: typer.Typer, fastcot: typer.Typer, cllm: typer.Typer
) -> None:
    """Add them to the command line and to its groups."""
    for command in (bench, report, tune):
        app.command()(command)
    tree.command("compare")(compare_trees)
    fastcot.command("compare")(compare_answers)
    cllm.command()(evaluate)
