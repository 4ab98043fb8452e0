"""How `leapdecode fastcot compare` runs comparisons and studies, and keeps them."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import typer

from leapdecode.cli.common import counting_progress, waiting
from leapdecode.cli.fastcot import source_of
from leapdecode.cli.model_options import Models
from leapdecode_bench.cli.fastcot_compare import bounds_of, calibrates, early_of, loss_of
from leapdecode_bench.cli.results import resuming
from leapdecode_bench.cli.tree_results import close_last_line


def compared(
    llm: Any,
    settings: Mapping[str, Any],
    wanted: Sequence[Any],
    folder: Path,
    resume: bool,
    spreading: Models | None,
) -> dict[str, Any]:
    """Compare what is missing in the folder, then write the page; the document. The workers of a
    Ray cluster do it where `spreading` says which models they open.
    """
    from leapdecode_bench.measure.fastcot.compare import Comparison, parted
    from leapdecode_bench.measure.fastcot.contenders import contenders
    from leapdecode_bench.measure.fastcot.page import document, write
    from leapdecode_bench.measure.fastcot.records import read
    from leapdecode_bench.measure.trees.runs import describe

    source = source_of(settings["task"], settings["shots"])
    drawn = (settings["calibration"], settings["limit"], settings["seed"], settings["shots"])
    first, questions = parted(source, *drawn)
    # resumed runs have the same questions, as the last batch holds what is left of them
    facts = {key: value for key, value in settings.items() if key != "limit"}
    run = describe(llm, folder, facts | {"questions": settings["limit"]}, resume)
    found = calibrated(llm, settings, wanted, first, folder) if calibrates(settings, wanted) else {}
    bounds = {method: [one.iterations] for method, one in found.items()}
    every = contenders(wanted, bounds or bounds_of(settings) or [], *early_of(settings))
    parts = (every, questions, settings["batch_size"], settings["trigger"], settings["seed"])
    make = partial(opened, spreading, parts) if spreading else None
    measure(Comparison(llm, *parts), folder, make)
    report = document(read(folder), [one.key for one in every], found, run)
    write(folder, report)
    return report


def opened(models: Models, parts: tuple[Any, ...]) -> Any:
    """The comparison in a worker's process."""
    from leapdecode_bench.measure.fastcot.compare import Comparison

    return Comparison(models.open(), *parts)


def calibrated(
    llm: Any, settings: Mapping[str, Any], wanted: Sequence[Any], questions: Sequence[Any],
    folder: Path,
) -> dict[str, Any]:  # fmt: skip
    """The bound of FastCoT with each method that needs one, kept in the folder."""
    from leapdecode.reasoning.fastcot import Answerer, plan_of
    from leapdecode.reasoning.fastcot.calibration import Calibration, calibrate

    path = folder / "calibration.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {method: Calibration.parse(one) for method, one in kept.items()}
    for one in wanted:
        if not one.kind.bounded or one.bound_of in found:
            continue
        plan = plan_of(one.bounding, early_of(settings)[2], one.options)
        with waiting(f"calibrating {one.bound_of}"):
            answerer = Answerer(llm, settings["batch_size"], settings["trigger"])
            found[one.bound_of] = calibrate(
                answerer, questions, plan, loss_of(settings), settings["step"]
            )
        kept = {method: asdict(one) for method, one in found.items()}
        path.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    return found


def measure(work: Any, folder: Path, make: Any) -> None:
    """Answer what is missing, with a progress bar on stderr where that is a terminal; with `make`
    on a Ray cluster.
    """
    from leapdecode.cluster.parts import run
    from leapdecode_bench.measure.fastcot.records import RECORDS, read

    keys = {one.key for one in work.contenders}
    done = {(one.key, one.batch) for one in read(folder) if one.key in keys}
    close_last_line(folder / RECORDS)
    with counting_progress() as progress, (folder / RECORDS).open("a", encoding="utf-8") as file:
        bar = progress.add_task("comparing", total=work.total, completed=len(done))
        try:
            for record in run(work, done, make):
                file.write(record.line())
                file.flush()
                progress.update(bar, advance=1, description=work.doing)
        except KeyboardInterrupt:
            again = resuming(sys.argv[1:], folder)
            typer.echo(f"\nstopped; go on with\n  {again}", err=True)
            raise


def studied(
    llm: Any, settings: Mapping[str, Any], study: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """One of the paper's figures as rows, with its page; the document."""
    from leapdecode_bench.measure.fastcot.study_page import document, write
    from leapdecode_bench.measure.trees.runs import describe

    kind = study["study"]
    run = describe(llm, folder, settings, resume=False)
    with counting_progress() as progress:
        bar = progress.add_task(settings["preset"], total=None)
        rows = _rows(llm, settings, study, lambda: progress.update(bar, advance=1))
    task = None if kind == "row_costs" else settings["task"]
    report = document(settings["preset"], task, rows, run)
    write(folder, report, kind, study["summary"])
    return report


def _rows(
    llm: Any, settings: Mapping[str, Any], study: Mapping[str, Any], tick: Any
) -> list[dict[str, Any]]:
    from leapdecode.reasoning.fastcot import Answerer, plan_of
    from leapdecode_bench.measure.fastcot.studies import corrupted, curves, plans, row_costs_of

    if study["study"] == "row_costs":
        return row_costs_of(llm)
    source = source_of(settings["task"], settings["shots"])
    questions = source.questions(settings["limit"], settings["seed"], settings["shots"])

    def make() -> Any:
        return Answerer(llm, settings["batch_size"], settings["trigger"])

    if study["study"] == "corrupted":
        plan = plan_of("autoregressive")
        return corrupted(make, questions, plan, study["left"], settings["seeds"], tick)
    windows = study.get("windows", [early_of(settings)[2]])
    by_name = plans(study["contenders"], windows)
    return curves(make, questions, by_name, settings["step"], tick)
