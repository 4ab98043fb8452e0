"""`leapdecode tree compare`: execution strategies against each other."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from leapdecode.cli.common import counting_progress, print_json, reports_errors
from leapdecode.cli.model_options import Models, takes_model
from leapdecode.cli.options import JsonOption, RayOption, SeedOption
from leapdecode.cli.tree import GUESSES, KConfigOption, VerificationOption, options_of
from leapdecode.core.sampling import SamplingParams
from leapdecode.errors import OptionError
from leapdecode.reasoning.execution import STRATEGIES
from leapdecode_bench.cli.tree_results import close_last_line, merged, name_of, save, show
from leapdecode_bench.measure.trees.presets import PRESETS, cells

EVERY = ",".join(STRATEGIES)


@reports_errors
@takes_model("fallback")
def compare(
    task: Annotated[
        str, typer.Option(help="math, passage, blocksworld, one you added, or a .toml file")
    ] = "math",
    strategies: Annotated[
        str, typer.Option(help="by comma; cot is a chain of thought without a tree")
    ] = EVERY,
    preset: Annotated[
        str | None, typer.Option(help=f"combinations of settings of SEED: {', '.join(PRESETS)}")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="questions per task")] = 10,
    thoughts: Annotated[int, typer.Option(help="thoughts generated for a state")] = 3,
    breadth: Annotated[int, typer.Option(help="states kept of a level")] = 1,
    depth: Annotated[int | None, typer.Option(help="levels, the final generation included")] = None,
    search: Annotated[str, typer.Option(help="breadth_first, best_first or mcts")] = (
        "breadth_first"
    ),
    evaluator: Annotated[str, typer.Option(help="value or vote")] = "value",
    method: Annotated[str | None, typer.Option(help=GUESSES)] = None,
    k_config: KConfigOption = None,
    batch_size: Annotated[int, typer.Option(min=1, help="texts decoded at a time")] = 8,
    verification: VerificationOption = "seeded",
    temperature: Annotated[float, typer.Option(help="of thoughts and evaluations")] = 1.0,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None, typer.Option(help="folder of the results; default: a new one in trees/")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on with an interrupted run")] = False,
    ray: RayOption = False,
    json: JsonOption = False,
    *,
    models: Models,
) -> None:
    """Compare execution strategies on held-out questions of a task.

    Every question is searched under all strategies in turn. The folder gets trees.jsonl (a record
    per tree), every tree as JSON, compare.json, report.md, report.html and pictures: the schedule
    as a Gantt chart, acceptance, utilisation. A preset has a folder in it for each combination.

    Examples:

      leapdecode tree compare --task math --limit 5

      leapdecode tree compare --strategies serial,scheduled,scheduled:verify=1 --k-config 1,1,1

      leapdecode tree compare --strategies serial,batched-speculative --method auto

      leapdecode tree compare --strategies serial,cot --limit 100          # scores

      leapdecode tree compare --preset seed-figure7 --limit 3 --output results/figure7
    """
    given: dict[str, Any] = {
        "task": task, "thoughts": thoughts, "temperature": temperature, "k_config": k_config,
        "verification": verification,
    }  # fmt: skip
    every = [given | cell for cell in (cells(preset) if preset else [{}])]
    fixed = {
        "breadth": breadth, "depth": depth, "search": search, "evaluator": evaluator,
        "method": method, "batch_size": batch_size, "limit": limit, "seed": seed,
        "budget": "none" if preset else "auto",
        "strategies": [part.strip() for part in strategies.split(",") if part.strip()],
    }  # fmt: skip
    compare_cells(models, every, fixed, output, resume, json, preset is not None, ray)


def compare_cells(
    models: Models, every: Sequence[Mapping[str, Any]], fixed: Mapping[str, Any],
    output: Path | None, resume: bool, json: bool, named: bool, ray: bool = False,
) -> None:  # fmt: skip
    """Compare every combination of settings, `named` ones in folders of their own; show them.

    Ends the command with 1 where texts differ that should not.
    """
    drafted = models.has_draft
    for cell in every:
        check({**cell, **fixed}, drafted)
    llm = models.open()
    folder = place(output, resume)
    reports = []
    for cell in every:
        inner = folder / name_of(cell) if named else folder
        reports.append(compared(llm, {**cell, **fixed}, inner, resume, models, ray))
        if not json:
            show(reports[-1], inner)
    if json:
        print_json(merged(reports))
    if any(row["texts_equal_to_serial"] is False for one in reports for row in one["rows"]) and all(
        one["run"]["verification"] == "seeded" for one in reports
    ):
        raise typer.Exit(1)


def check(settings: Mapping[str, Any], drafted: bool) -> None:
    """Raise what can be known before a model is loaded."""
    from leapdecode.engine.checks import check_verification
    from leapdecode.reasoning import search, tasks
    from leapdecode.reasoning.execution import find_strategy
    from leapdecode.reasoning.solve import SearchSettings
    from leapdecode_bench.measure.trees.compare import COT

    found = tasks.find(settings["task"])
    depth = found.depth if settings["depth"] is None else settings["depth"]
    how = search.make(settings["search"], {})
    SearchSettings(how, settings["thoughts"], settings["breadth"], depth, settings["evaluator"], 1)
    check_verification(settings["verification"])
    options_of(settings["method"], settings["k_config"], drafted)
    SamplingParams(temperature=settings["temperature"])
    if not settings["strategies"]:
        raise OptionError(f"--strategies is empty; for example {EVERY}")
    for strategy in settings["strategies"]:
        if strategy != COT:
            find_strategy(strategy).scheduling(strategy, settings["batch_size"])


def place(output: Path | None, resume: bool, root: str = "trees") -> Path:
    """The folder of the results, without `output` a new one in `root`; raises `OptionError` where a
    new run would write over an old.
    """
    from datetime import datetime

    folder = output or Path(root) / datetime.now().strftime("%Y%m%d-%H%M%S")
    if resume and output is None:
        raise OptionError("--resume needs --output, the folder to go on in")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty; add --resume, or choose another --output")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def comparison(llm: Any, settings: Mapping[str, Any], drafted: bool) -> Any:
    """What one combination of settings compares."""
    from leapdecode.reasoning import tasks
    from leapdecode_bench.measure.trees.compare import Comparison

    task = tasks.find(settings["task"])
    search = {key: settings[key] for key in ("thoughts", "breadth", "depth", "search", "evaluator")}
    guesses = options_of(settings["method"], settings["k_config"], drafted)
    guesses["budget"] = settings["budget"]
    return Comparison(
        llm, task, settings["strategies"], task.questions(settings["limit"], settings["seed"]),
        SamplingParams(temperature=settings["temperature"], seed=settings["seed"]),
        guesses, search, settings["batch_size"], settings["verification"],
    )  # fmt: skip


def opened(models: Models, settings: Mapping[str, Any]) -> Any:
    """The same in a worker's process."""
    return comparison(models.open(), settings, models.has_draft)


def compared(
    llm: Any, settings: Mapping[str, Any], folder: Path, resume: bool, models: Models, ray: bool
) -> dict[str, Any]:
    """Measure one combination of settings, and write its files."""
    from leapdecode_bench.measure.trees.page import document, write
    from leapdecode_bench.measure.trees.records import read
    from leapdecode_bench.measure.trees.runs import describe

    work = comparison(llm, settings, models.has_draft)
    run = describe(llm, folder, dict(settings) | {"guesses": work.guesses}, resume)
    measure(work, folder, partial(opened, models, dict(settings)) if ray else None)
    records = read(folder)
    report = document(records, run, settings["thoughts"])
    write(folder, records, report)
    return report


def measure(work: Any, folder: Path, make: Any = None) -> None:
    """Search what is missing, with a progress bar on stderr where that is a terminal; with `make`
    on a Ray cluster.
    """
    from leapdecode.cluster.parts import run
    from leapdecode_bench.measure.trees.records import read

    done = {(record.strategy, record.question) for record in read(folder)}
    close_last_line(folder / "trees.jsonl")
    with counting_progress() as progress, (folder / "trees.jsonl").open("a") as file:
        bar = progress.add_task("comparing", total=work.total, completed=len(done))
        try:
            for record, tree in run(work, done, make):
                file.write(record.line())
                file.flush()
                save(folder, record, tree)
                progress.update(bar, advance=1, description=work.doing)
        except KeyboardInterrupt:
            again = " ".join(sys.argv[1:])
            typer.echo(f"\nstopped; go on with\n  leapdecode {again} --resume", err=True)
            raise
