"""How commands measure: record by record into a folder, with a progress bar, so that a stopped run
can be taken up.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import counting_progress
from leapdecode.errors import OptionError

ResumeOption = Annotated[bool, typer.Option("--resume", help="go on with an interrupted run")]


def measure(
    work: Any,
    store: Any,
    doing: str = "comparing",
    program: str = "leapdecode",
    make: Callable[[], Any] | None = None,
    take: Callable[[Any], Sequence[Any]] = list,
) -> None:
    """Do what is missing, with a progress bar on stderr where that is a terminal.

    Args:
        work: as `cluster.parts` takes it.
        store: what keeps them.
        make: makes the work in a worker's process, on a Ray cluster.
        take: gives the records of what `work.run` yields.
    """
    from leapdecode.cluster.parts import run

    done = {record.key for record in store.read()}
    keys = work.keys
    with counting_progress(lambda: work.doing) as progress:
        bar = progress.add_task(doing, total=len(keys), completed=len(done & set(keys)))
        try:
            for result in run(work, done, make):
                records = take(result)
                if records:
                    store.add(records)
                progress.update(bar, advance=len(records), description=work.doing)
        except KeyboardInterrupt:
            again = resuming(sys.argv[1:], store.folder, program)
            typer.echo(f"\nstopped; go on with\n  {again}", err=True)
            raise


def measure_bench(bench: Any, store: Any, program: str = "leapdecode", make: Any = None) -> None:
    """Do what is missing of a bench, and keep the answers that a judge elsewhere reads."""
    from leapdecode_bench.measure.answers import answers_of

    answers = answers_of(bench, store.folder)
    measure(bench, store, "measuring", program, make)
    answers.write()


def resuming(arguments: list[str], folder: Path, program: str = "leapdecode") -> str:
    """The command that goes on with a stopped run of `arguments`."""
    added = [] if "--resume" in arguments else ["--resume"]
    has_output = any(argument.partition("=")[0] == "--output" for argument in arguments)
    added += [] if has_output else ["--output", str(folder)]
    return f"{program} {shlex.join([*arguments, *added])}"


def results_folder(output: Path | None, resume: bool, root: str) -> Path:
    """The folder of a comparison, without `output` a new one in `root`; raises `OptionError` where
    a new run would write over an old.
    """
    folder = output or Path(root) / datetime.now().strftime("%Y%m%d-%H%M%S")
    if resume and output is None:
        raise OptionError("--resume needs --output, the folder to go on in")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty; add --resume, or choose another --output")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
