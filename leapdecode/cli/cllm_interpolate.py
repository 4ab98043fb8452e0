"""`leapdecode cllm interpolate`: quality that training has cost, back for some of the speed."""

from pathlib import Path
from typing import Annotated

import typer

from leapdecode.cli.cllm import needed
from leapdecode.cli.common import JsonOption, ModelOption, print_json, reports_errors


@reports_errors
def interpolate(
    model: ModelOption = "demo",
    baseline: Annotated[
        str, typer.Option(metavar="MODEL", help="what the model was trained from")
    ] = "demo",
    share: Annotated[
        float, typer.Option(help="of the way from the baseline's weights to the trained ones")
    ] = 0.75,
    output: Annotated[Path | None, typer.Option(metavar="DIR", help="folder of the model")] = None,
    json: JsonOption = False,
) -> None:
    """Make a model between a trained one and the one that it was trained from.

    Where `cllm evaluate` shows that training has cost quality, a share below 1 gives most of it
    back, for some of the speed.

    Examples:

      leapdecode cllm interpolate -m model --share 0.7 --output between

      leapdecode cllm evaluate -m model --also between --output report
    """
    from leapdecode.training.interpolate import interpolate as made

    folder = needed(output)
    found = made(model, baseline, share, folder)
    if json:
        print_json({"schema": 1, "output": str(folder), **found})
    else:
        typer.echo(f"{folder}: {share:g} of the way from {baseline} to {model}")
