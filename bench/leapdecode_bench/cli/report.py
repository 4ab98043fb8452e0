"""`leapdecode report`: the page and the plots of a bench, made anew from its records."""

from pathlib import Path
from typing import Annotated

import typer

from leapdecode.cli.common import print_json, reports_errors
from leapdecode.cli.options import JsonOption
from leapdecode_bench.cli.results import note_plots, show


@reports_errors
def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="folder of a bench: records, or a results.json"),
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where to write; default: the folder itself")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Render the results of a bench: results.json, report.md, report.html and plots.

    Reads records.jsonl or records.jsonl.gz with run.json, as `leapdecode bench --output` leaves
    them, or where there are no records the folder's results.json. No model is loaded. Of an
    interrupted bench the rounds that are complete are shown.

    Plots need matplotlib: pip install leapdecode-bench. Without it the pages say so.

    Examples:

      leapdecode report leapdecode-bench/20261123-140000

      leapdecode report bench/scripts/results/smollm2_2core --output /tmp/page

      leapdecode report results/all --json    # {"source": ..., "files": [...]}
    """
    from leapdecode_bench.measure.results import render

    rendered = render(folder, output)
    note_plots()
    if json:
        files = [str(path) for path in rendered.files]
        print_json({"schema": 1, "source": str(rendered.source), "files": files})
    else:
        show(rendered.report, output or folder)
