"""`leapdecode fastcot compare`: ways to answer against each other, and the paper's studies."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import print_json, print_page, print_table, reports_errors
from leapdecode.cli.fastcot import (
    SAYING,
    BatchSizeOption,
    ShotsOption,
    StepOption,
    TaskOption,
    TriggerOption,
    WindowOption,
    checked_count,
    numbers,
    source_of,
    window_of,
)
from leapdecode.cli.model_options import Models, check_drafts, takes_model
from leapdecode.cli.options import JsonOption, RayOption, parse_options
from leapdecode.errors import OptionError
from leapdecode_bench.cli.tree_compare import place
from leapdecode_bench.measure.fastcot.contenders import DEFAULT, KINDS, Wanted, wanted
from leapdecode_bench.measure.fastcot.presets import PRESETS, find_preset

CALIBRATION, MAX_LOSS = 50, 0.03
METHODS = f"by comma: {', '.join(KINDS)}; each may name a method, as cot:auto or fastcot:lookahead"


@reports_errors
@takes_model("fallback")
def compare(
    task: TaskOption = "math",
    methods: Annotated[str, typer.Option(help=METHODS)] = ",".join(DEFAULT),
    preset: Annotated[
        str | None, typer.Option(help=f"a study of the paper: {', '.join(PRESETS)}")
    ] = None,
    limit: Annotated[int, typer.Option(help="questions")] = 200,
    max_loss: Annotated[
        float | None,
        typer.Option(
            help=f"accuracy that a calibrated bound may lose, as a share; default: {MAX_LOSS}"
        ),
    ] = None,
    calibration: Annotated[int, typer.Option(help="questions to calibrate by, before those")] = (
        CALIBRATION
    ),
    step: StepOption = 1,
    iterations: Annotated[
        str | None, typer.Option(metavar="N[,N..]", help="bounds, instead of a calibrated one")
    ] = None,
    unchanged: Annotated[
        str, typer.Option(metavar="K[,K..]", help="readings in a row of fastcot-early")
    ] = "2",
    confidence: Annotated[
        str, typer.Option(metavar="P[,P..]", help="least probability of a reading that counts")
    ] = "0",
    window: WindowOption = None,
    trigger: TriggerOption = SAYING,
    shots: ShotsOption = 4,
    batch_size: BatchSizeOption = 8,
    seed: Annotated[int, typer.Option(help="equal seeds take equal questions")] = 0,
    seeds: Annotated[int, typer.Option(help="corrupted rationales per question and share")] = 100,
    output: Annotated[
        Path | None, typer.Option(help="folder of the results; default: a new one in fastcot/")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an interrupted run")] = False,
    ray: RayOption = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Compare ways to answer, on held-out questions that are not those of the calibration.

    cot: the whole rationale; fastcot: exact part and approximate tokens at a bound;
    fastcot-without-byproducts: plain decoding cut there; fastcot-exact-part: FastCoT's exact part
    alone; fastcot-early: no bound, the answer is read beside the rationale until it stays the same.

    The folder gets records.jsonl, calibration.json, compare.json, report.md, report.html and
    pictures. The exit code is 1 where an exact part is not what cot's rationale begins with.

    Examples:

      leapdecode fastcot compare --task choice --limit 100 --output results/choice

      leapdecode fastcot compare --iterations 5,10,15,20 --methods cot,fastcot,fastcot:auto

      leapdecode fastcot compare --preset fastcot-figure5 --limit 20 --seeds 10
    """
    settings = {
        "task": task, "methods": methods, "limit": limit, "max_loss": max_loss,
        "calibration": calibration, "step": step, "iterations": iterations,
        "unchanged": unchanged, "confidence": confidence, "window": window, "trigger": trigger,
        "shots": shots, "batch_size": batch_size, "seed": seed, "seeds": seeds, "preset": preset,
    }  # fmt: skip
    study = find_preset(preset) if preset else {"study": "comparison", "tasks": [task]}
    tasks = study.get("tasks", [task])
    compare_tasks(models, settings, study, tasks, output, resume, json, ray)


def compare_tasks(
    models: Models, settings: Mapping[str, Any], study: Mapping[str, Any], tasks: Sequence[str],
    output: Path | None, resume: bool, json: bool, ray: bool = False,
) -> None:  # fmt: skip
    """Run a study, or a comparison on every task, those of a preset in folders of their own.

    Ends the command with 1 where an exact part is not what cot's rationale begins with.
    """
    from leapdecode_bench.cli.fastcot_run import compared, studied

    preset = settings["preset"]
    compares = study["study"] == "comparison"
    wanted = check(settings, tasks, compares)
    if resume and not compares:
        raise OptionError(f"--resume goes on with comparisons; {preset} is asked anew")
    folder = place(output, resume, "fastcot")
    llm = models.open()
    if not compares:
        report = studied(llm, settings, study, folder)
        print_json(report) if json else show_study(report, str(study["study"]), folder)
        return
    check_drafts(llm, [one.method for one in wanted])
    reports, spreading = [], models if ray else None
    for name in tasks:
        inner = folder / name.partition("=")[0] if preset else folder
        asked = {**settings, "task": name}
        reports.append(compared(llm, asked, wanted, inner, resume, spreading))
        if not json:
            show_comparison(reports[-1], inner)
    if json:
        print_json(merged(reports, preset))
    if any(row["rationale_equal"] is False for one in reports for row in one["rows"]):
        raise typer.Exit(1)


def check(settings: Mapping[str, Any], tasks: Sequence[str], compares: bool) -> list[Any]:
    """The contenders; raises what can be known to be wrong before a model is loaded."""
    from leapdecode.reasoning.fastcot.calibration import check_loss, check_step
    from leapdecode_bench.measure.fastcot.contenders import contenders

    wanted = wanted_of(settings["methods"])
    for count in ("limit", "seeds"):
        checked_count(f"--{count}", settings[count])
    if settings["calibration"] < 0:
        raise OptionError(f"--calibration {settings['calibration']} must be at least 0")
    check_step(settings["step"])
    check_loss(loss_of(settings))
    if settings["max_loss"] is not None and settings["iterations"] is not None:
        raise OptionError("--iterations gives bounds and --max-loss finds one; choose one of them")
    contenders(wanted, bounds_of(settings) or [0], *early_of(settings))
    if calibrates(settings, wanted) and not settings["calibration"]:
        raise OptionError("--calibration 0 leaves no question to calibrate by; give --iterations")
    count = settings["limit"] + (settings["calibration"] if compares else 0)
    for task in tasks:
        source_of(task, settings["shots"]).questions(count, settings["seed"], settings["shots"])
    return wanted


def loss_of(settings: Mapping[str, Any]) -> float:
    """The loss that a calibrated bound may have."""
    return MAX_LOSS if settings["max_loss"] is None else float(settings["max_loss"])


def bounds_of(settings: Mapping[str, Any]) -> list[int] | None:
    """The bounds that were given."""
    written = settings["iterations"]
    return None if written is None else numbers("--iterations", written, int, 0)


def calibrates(settings: Mapping[str, Any], wanted: Sequence[Any]) -> bool:
    """Whether a bound is to be found."""
    return settings["iterations"] is None and any(one.kind.bounded for one in wanted)


def early_of(settings: Mapping[str, Any]) -> tuple[list[int], list[float], int | str]:
    """Numbers of readings, confidences, and the window, as `contenders` takes them."""
    from leapdecode.reasoning.fastcot.answering import WINDOW

    window = settings["window"]
    return (
        numbers("--unchanged", settings["unchanged"], int, 1),
        numbers("--confidence", settings["confidence"], float, 0.0),
        WINDOW if window is None else window_of(window),
    )


def merged(reports: list[dict[str, Any]], preset: str | None) -> dict[str, Any]:
    """One document: that of the one task, or the rows of all, each with its task."""
    if len(reports) == 1:
        return reports[0]
    return {
        "schema": 1,
        "preset": preset,
        "rows": [{"task": one["task"]} | row for one in reports for row in one["rows"]],
        "calibration": {one["task"]: one["calibration"] for one in reports},
        "calibrations": {one["task"]: one["calibrations"] for one in reports},
        "run": {one["task"]: one["run"] for one in reports},
    }


def wanted_of(methods: str) -> list[Any]:
    """The contenders of --methods; raises user errors with suggestions."""
    names = dict.fromkeys(part.strip() for part in methods.split(",") if part.strip())
    if not names:
        raise OptionError("--methods is empty; for example cot,fastcot,fastcot-early:auto")
    contenders = []
    for name in names:
        kind, method, pairs = wanted(name)
        contenders.append(Wanted(name, kind, method, parse_options(method, pairs)))
    return contenders


def show_comparison(report: Mapping[str, Any], folder: Path) -> None:
    """The table, the bound, and where the page is."""
    from leapdecode_bench.measure.fastcot.page import SHORT, cells

    rows = [[cells(row)[name] for name in SHORT] for row in report["rows"]]
    print_table(SHORT, rows, title=str(report["task"]))
    print_page(folder)


def show_study(report: Mapping[str, Any], study: str, folder: Path) -> None:
    """The rows of a study, and where the page is."""
    from leapdecode_bench.measure.fastcot.study_page import KINDS

    kind = KINDS[study]
    rows = [kind.cells(row) for row in report["rows"]]
    print_table(kind.head, rows, kind.names, report["preset"])
    print_page(folder)
