"""The option that spreads a command's work over a Ray cluster."""

from typing import Annotated

import typer

RayOption = Annotated[
    bool,
    typer.Option(
        "--ray",
        help="workers on a Ray cluster do the work: the one that RAY_ADDRESS names, or this "
        "machine's cores",
    ),
]
