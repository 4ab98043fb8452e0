"""`leapdecode fastcot compare`: ways to answer against each other, and the paper's studies."""

import json as json_of
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import counting_progress, print_json, print_page, reports_errors
from leapdecode.cli.fastcot import (
    RATIONALE_TOKENS,
    SAYING,
    BatchSizeOption,
    EndOption,
    MaxTokensOption,
    ShotsOption,
    StepOption,
    TaskOption,
    TriggerOption,
    WindowOption,
    checked_count,
    numbers,
    shots_of,
    source_of,
    stop_of,
    window_of,
)
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import JsonOption, RayOption, parse_options
from leapdecode.errors import OptionError, TaskError
from leapdecode_bench.cli.measuring import ResumeOption, measure, results_folder
from leapdecode_bench.cli.paper_sets import explicit
from leapdecode_bench.cli.results import show_table
from leapdecode_bench.cli.stated import check_taken, stated_options
from leapdecode_bench.measure.fastcot.contenders import (
    DEFAULT,
    KINDS,
    ContenderSpec,
    parse_contender,
)
from leapdecode_bench.measure.pages import table_of
from leapdecode_bench.measure.presets import PAPERS, STUDIES, find_study

CALIBRATION, MAX_LOSS = 50, 0.03
ASKING = {"task", "data", "limit", "shots", "batch_size", "trigger", "seed", "max_tokens", "stop"}
# by the kind of a study: which options it goes by
TAKES: dict[str, set[str]] = {
    "row_costs": set(),
    "corrupted": {*ASKING, "seeds"},
    "curves": {*ASKING, "step", "window"},
    "comparison": {
        *ASKING, "step", "window", "methods", "max_loss", "calibration", "iterations", "unchanged",
        "confidence", "ray",
    },
}  # fmt: skip
METHODS = f"by comma: {', '.join(KINDS)}; each may name a method, as cot:auto or fastcot:lookahead"


@reports_errors
@takes_model("fallback")
def compare(
    context: typer.Context,
    task: TaskOption = "math",
    methods: Annotated[str, typer.Option(help=METHODS)] = ",".join(DEFAULT),
    preset: Annotated[
        str | None,
        typer.Option(help=f"a study of the paper, options beside it win: {', '.join(STUDIES)}"),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where public sets lie (docs/reproducing.md)")
    ] = None,
    limit: Annotated[int, typer.Option(help="questions")] = 200,
    max_loss: Annotated[
        float | None,
        typer.Option(
            help=f"accuracy that a calibrated bound may lose, as a share; default: {MAX_LOSS}"
        ),
    ] = None,
    calibration: Annotated[
        int | None,
        typer.Option(
            help="questions to calibrate by, before those; default: as many as --limit, at most "
            f"{CALIBRATION}"
        ),
    ] = None,
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
    max_tokens: MaxTokensOption = RATIONALE_TOKENS,
    stop: EndOption = None,
    shots: ShotsOption = None,
    batch_size: BatchSizeOption = 8,
    seed: Annotated[int, typer.Option(help="equal seeds take equal questions")] = 0,
    seeds: Annotated[int, typer.Option(help="corrupted rationales per question and share")] = 100,
    output: Annotated[
        Path | None, typer.Option(help="folder of the results; default: a new one in fastcot/")
    ] = None,
    resume: ResumeOption = False,
    ray: RayOption = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Compare ways to answer, on held-out questions that are not those of the calibration.

    cot: the whole rationale; cot-inexact: the same without exactness; fastcot: exact part and
    approximate tokens at a bound; fastcot-without-byproducts: plain decoding cut there;
    fastcot-exact-part: FastCoT's exact part alone; fastcot-early: no bound, the answer is read
    beside the rationale until it stays the same.

    The folder gets records.jsonl, calibration.json, compare.json, report.md, report.html and
    pictures. The exit code is 1 where an exact part is not what cot's rationale begins with.

    Examples:

      leapdecode fastcot compare --task choice --limit 100 --output results/choice

      leapdecode fastcot compare --iterations 5,10,15,20 --methods cot,fastcot,fastcot:auto

      leapdecode fastcot compare --preset fastcot-figure5 --limit 20 --seeds 10
    """
    settings = {
        "task": task, "methods": methods, "limit": limit, "max_loss": max_loss,
        "calibration": num_calibrating(limit) if calibration is None else calibration,
        "step": step, "iterations": iterations,
        "unchanged": unchanged, "confidence": confidence, "window": window, "trigger": trigger,
        "max_tokens": max_tokens, "stop": stop, "shots": shots, "batch_size": batch_size,
        "seed": seed, "seeds": seeds, "preset": preset,
    }  # fmt: skip
    from leapdecode_bench.tasks.public.loading import is_public

    stated = stated_options(context)
    study = find_study(preset) if preset else {"study": "comparison"}
    takes = TAKES[study["study"]]
    check_taken(stated, takes, f"--preset {preset}" if preset else "a comparison without a preset")
    if "task" in stated or preset not in PAPERS:
        tasks = [task]
    else:
        tasks = PAPERS[preset].tasks_of(models.model, data)
    if data is not None and not any(is_public(name) for name in tasks):
        raise OptionError(f"--data is for public sets, and {tasks[0]} is none; leave it out")
    tasks = explicit(tasks, data)
    settings["task"] = tasks[0]
    compare_tasks(models, settings, study, tasks, output, resume, json, ray)


def num_calibrating(limit: int) -> int:
    """How many questions calibrate a bound unless said otherwise, where `limit` are asked."""
    return min(CALIBRATION, limit)


def compare_tasks(
    models: Models, settings: Mapping[str, Any], study: Mapping[str, Any], tasks: Sequence[str],
    output: Path | None, resume: bool, json: bool, ray: bool = False,
) -> None:  # fmt: skip
    """Run a study, or a comparison on every task, those of a preset in folders of their own.

    Ends the command with 1 where an exact part is not what cot's rationale begins with.
    """
    preset = settings["preset"]
    compares = study["study"] == "comparison"
    contenders = check(settings, tasks, compares)
    if resume and not compares:
        raise OptionError(f"--resume goes on with comparisons; {preset} is asked anew")
    if compares:
        models.check_drafts(contender.method for contender in contenders)
    folder = results_folder(output, resume, "fastcot")
    llm = models.open()
    if not compares:
        report = studied(llm, of_task(settings, tasks[0]), study, folder)
        print_json(report) if json else show_study(report, str(study["study"]), folder)
        return
    reports, spreading = [], models if ray else None
    for name in tasks:
        inner = folder / name.partition("=")[0] if preset else folder
        task_settings = of_task(settings, name)
        reports.append(compared(llm, task_settings, contenders, inner, resume, spreading))
        if not json:
            show_comparison(reports[-1], inner)
    if json:
        print_json(merged(reports, preset))
    if any(row["rationale_equal"] is False for contender in reports for row in contender["rows"]):
        raise typer.Exit(1)


def check(settings: Mapping[str, Any], tasks: Sequence[str], compares: bool) -> list[Any]:
    """The contenders; raises what can be known to be wrong before a model is loaded."""
    from leapdecode.reasoning.fastcot.calibration import check_loss, check_step
    from leapdecode_bench.measure.fastcot.contenders import contenders

    chosen = wanted_of(settings["methods"])
    for count in ("limit", "seeds"):
        checked_count(f"--{count}", settings[count])
    if settings["calibration"] < 0:
        raise OptionError(f"--calibration {settings['calibration']} must be at least 0")
    check_step(settings["step"])
    check_loss(loss_of(settings))
    if settings["max_loss"] is not None and settings["iterations"] is not None:
        raise OptionError("--iterations gives bounds and --max-loss finds one; choose one of them")
    if calibrates(settings, chosen) and not settings["calibration"]:
        raise OptionError("--calibration 0 leaves no question to calibrate by; give --iterations")
    calibrating = settings["calibration"] if compares else 0
    count = settings["limit"] + calibrating
    for task in tasks:
        every = of_task(settings, task)
        contenders(chosen, bounds_of(every) or [0], *early_of(every), **rationale_of(every))
        try:
            source_of(task).questions(count, every["seed"], every["shots"])
        except TaskError as error:
            if not calibrating:
                raise
            raise TaskError(f"{error}, or --calibration: {calibrating} would calibrate") from error
    return chosen


def of_task(settings: Mapping[str, Any], task: str) -> dict[str, Any]:
    """The settings for a task, with its worked examples and the ends of its rationales."""
    source = source_of(task)
    shots = shots_of(source, settings["shots"])
    stop = list(stop_of(source, settings["stop"]))
    return {**settings, "task": task, "shots": shots, "stop": stop}


def rationale_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The length and the ends of a task's rationales, as a plan takes them."""
    return {"rationale_tokens": settings["max_tokens"], "stop": tuple(settings["stop"])}


def loss_of(settings: Mapping[str, Any]) -> float:
    """The loss that a calibrated bound may have."""
    return MAX_LOSS if settings["max_loss"] is None else float(settings["max_loss"])


def bounds_of(settings: Mapping[str, Any]) -> list[int] | None:
    """The bounds that were given."""
    written = settings["iterations"]
    return None if written is None else numbers("--iterations", written, int, 0)


def calibrates(settings: Mapping[str, Any], contenders: Sequence[Any]) -> bool:
    """Whether a bound must be calibrated."""
    return settings["iterations"] is None and any(
        contender.kind.bounded for contender in contenders
    )


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
    """The document of a single task, or one with the rows of all tasks."""
    if len(reports) == 1:
        return reports[0]
    return {
        "schema": 1,
        "preset": preset,
        "rows": [{"task": report["task"]} | row for report in reports for row in report["rows"]],
        "calibration": {report["task"]: report["calibration"] for report in reports},
        "calibrations": {report["task"]: report["calibrations"] for report in reports},
        "run": {report["task"]: report["run"] for report in reports},
    }


def wanted_of(methods: str) -> list[Any]:
    """The contenders of --methods; raises user errors with suggestions."""
    names = dict.fromkeys(part.strip() for part in methods.split(",") if part.strip())
    if not names:
        raise OptionError("--methods is empty; for example cot,fastcot,fastcot-early:auto")
    contenders = []
    for name in names:
        kind, method, pairs = parse_contender(name)
        contenders.append(ContenderSpec(name, kind, method, parse_options(method, pairs)))
    return contenders


def compared(
    llm: Any,
    settings: Mapping[str, Any],
    chosen: Sequence[Any],
    folder: Path,
    resume: bool,
    spreading: Models | None,
) -> dict[str, Any]:
    """Compare what is missing in the folder, then write the page; the document. The workers of a
    Ray cluster do it where `spreading` says which models they open.
    """
    from leapdecode_bench.measure.facts import described
    from leapdecode_bench.measure.fastcot import page, records
    from leapdecode_bench.measure.fastcot.compare import Comparison, split_questions
    from leapdecode_bench.measure.fastcot.contenders import contenders

    source = source_of(settings["task"])
    drawn = (settings["calibration"], settings["limit"], settings["seed"], settings["shots"])
    first, questions = split_questions(source, *drawn)
    # resumed runs have the same questions, as the last batch holds what is left of them
    facts = {key: value for key, value in settings.items() if key != "limit"}
    run = described(llm) | facts | {"questions": settings["limit"]}
    store = records.store(folder)
    store.begin(run, resume)
    calibrations = (
        calibrated(llm, settings, chosen, first, folder) if calibrates(settings, chosen) else {}
    )
    bounds = {method: [calibration.iterations] for method, calibration in calibrations.items()}
    every = contenders(
        chosen, bounds or bounds_of(settings) or [], *early_of(settings), **rationale_of(settings)
    )
    parts = (every, questions, settings["batch_size"], settings["trigger"], settings["seed"])
    make = partial(opened, spreading, parts) if spreading else None
    measure(Comparison(llm, *parts), store, make=make)
    document = page.document(
        store.read(), [calibration.key for calibration in every], calibrations, run
    )
    page.write(folder, document)
    return document


def opened(models: Models, parts: tuple[Any, ...]) -> Any:
    """The comparison in a worker's process."""
    from leapdecode_bench.measure.fastcot.compare import Comparison

    return Comparison(models.open(), *parts)


def calibrated(
    llm: Any, settings: Mapping[str, Any], chosen: Sequence[Any], questions: Sequence[Any],
    folder: Path,
) -> dict[str, Any]:  # fmt: skip
    """The bound of FastCoT with each method that needs one, kept in the folder."""
    from leapdecode.reasoning.fastcot import Answerer, plan_of
    from leapdecode.reasoning.fastcot.calibration import Calibration, calibrate

    path = folder / "calibration.json"
    saved = json_of.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    calibrations = {method: Calibration.parse(contender) for method, contender in saved.items()}
    for contender in chosen:
        if not contender.kind.bounded or contender.bound_of in calibrations:
            continue
        plan = plan_of(
            contender.bounding, early_of(settings)[2], contender.options, **rationale_of(settings)
        )
        with counting_progress() as progress:
            bar = progress.add_task(f"calibrating {contender.bound_of}", total=None)

            def on_bound(done: int, total: int, progress: Any = progress, bar: Any = bar) -> None:
                progress.update(bar, completed=done, total=total)

            answerer = Answerer(llm, settings["batch_size"], settings["trigger"])
            calibrations[contender.bound_of] = calibrate(
                answerer, questions, plan, loss_of(settings), settings["step"], on_bound
            )
        saved = {method: asdict(contender) for method, contender in calibrations.items()}
        path.write_text(json_of.dumps(saved) + "\n", encoding="utf-8")
    return calibrations


def studied(
    llm: Any, settings: Mapping[str, Any], study: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """One of the paper's figures as rows, with its page; the document."""
    from leapdecode_bench.measure.facts import described
    from leapdecode_bench.measure.fastcot import page, records

    kind = study["study"]
    run = described(llm) | dict(settings)
    records.store(folder).begin(run, resume=False)
    with counting_progress() as progress:
        bar = progress.add_task(settings["preset"], total=None)
        rows = _rows(llm, settings, study, lambda: progress.update(bar, advance=1))
    task = None if kind == "row_costs" else settings["task"]
    document = page.study_document(settings["preset"], task, rows, run)
    page.write_study(folder, document, kind, study["summary"])
    return document


def _rows(
    llm: Any, settings: Mapping[str, Any], study: Mapping[str, Any], tick: Any
) -> list[dict[str, Any]]:
    from leapdecode.reasoning.fastcot import Answerer, plan_of
    from leapdecode.reasoning.fastcot.answering import WINDOW
    from leapdecode_bench.measure.fastcot.studies import corrupted, curves, plans, row_costs_of

    if study["study"] == "row_costs":
        return row_costs_of(llm)
    questions = source_of(settings["task"]).questions(
        settings["limit"], settings["seed"], settings["shots"]
    )

    def make() -> Any:
        return Answerer(llm, settings["batch_size"], settings["trigger"])

    if study["study"] == "corrupted":
        plan = plan_of("autoregressive", **rationale_of(settings))
        return corrupted(make, questions, plan, study["left"], settings["seeds"], tick)
    windows = study.get("windows", [WINDOW])
    if settings["window"] is not None:
        windows = [window_of(settings["window"])]
    by_name = plans(study["contenders"], windows, **rationale_of(settings))
    return curves(make, questions, by_name, settings["step"], tick)


def show_comparison(report: Mapping[str, Any], folder: Path) -> None:
    """The table, the bound, and where the page is."""
    from leapdecode_bench.measure.fastcot.page import ON_A_TERMINAL

    show_table(table_of(ON_A_TERMINAL, report["rows"], title=str(report["task"])))
    print_page(folder)


def show_study(report: Mapping[str, Any], study: str, folder: Path) -> None:
    """The rows of a study, and where the page is."""
    from leapdecode_bench.measure.fastcot.page import STUDIES

    show_table(table_of(STUDIES[study].columns, report["rows"], title=report["preset"]))
    print_page(folder)
